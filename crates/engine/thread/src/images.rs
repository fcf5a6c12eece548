//! Images for a model: read from a file, resized, and encoded as data URLs.

use std::io::Cursor;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use image::codecs::jpeg::JpegEncoder;
use image::imageops::FilterType;
use image::{DynamicImage, GenericImageView, ImageError, ImageFormat};

use convoke_files::{FileKind, Files};

const MAX_WIDTH: u32 = 2048;
const MAX_HEIGHT: u32 = 768;
const JPEG_QUALITY: u8 = 85;

/// Reads an image file as a data URL. The error is a text that the model reads instead.
///
/// `shown` is the path as the user gave it, for the text.
pub fn data_url(files: &dyn Files, path: &Path, shown: &Path) -> Result<String, String> {
    let named = shown.display();
    let unreadable = |why: String| {
        let text = format!("Codex could not read the local image at `{named}`: {why}");
        Err(text)
    };
    let bytes = match files.read(path, FileKind::Image) {
        Ok(bytes) => bytes,
        Err(error) => return unreadable(format!("failed to read image at {named}: {error}")),
    };
    match fitted(&bytes) {
        Ok(FittedImage::Unchanged(format)) => Ok(url(format, &bytes)),
        Ok(FittedImage::Encoded(format, encoded)) => Ok(url(format, &encoded)),
        Err(error @ ImageError::Decoding(_)) => Err(format!(
            "Image located at `{named}` is invalid: failed to decode image at {named}: {error}"
        )),
        Err(_) => match mime_guess::from_path(shown).first() {
            None => unreadable("unsupported MIME type (unknown)".to_owned()),
            Some(mime) if mime.type_() != "image" => {
                unreadable(format!("unsupported MIME type `{}`", mime.essence_str()))
            }
            Some(mime) => Err(format!(
                "Codex cannot attach image at `{named}`: unsupported image format `{}`.",
                mime.essence_str()
            )),
        },
    }
}

enum FittedImage {
    /// The file can be sent unchanged.
    Unchanged(ImageFormat),
    /// The file was encoded again.
    Encoded(ImageFormat, Vec<u8>),
}

fn fitted(bytes: &[u8]) -> Result<FittedImage, ImageError> {
    let format = image::guess_format(bytes)?;
    let decoded = image::load_from_memory_with_format(bytes, format)?;
    let (width, height) = decoded.dimensions();
    let fits = width <= MAX_WIDTH && height <= MAX_HEIGHT;
    if fits && matches!(format, ImageFormat::Png | ImageFormat::Jpeg) {
        return Ok(FittedImage::Unchanged(format));
    }
    let decoded =
        if fits { decoded } else { decoded.resize(MAX_WIDTH, MAX_HEIGHT, FilterType::Triangle) };
    encode(&decoded, format)
}

fn encode(image: &DynamicImage, format: ImageFormat) -> Result<FittedImage, ImageError> {
    let mut encoded = Vec::new();
    if format == ImageFormat::Jpeg {
        JpegEncoder::new_with_quality(&mut encoded, JPEG_QUALITY).encode_image(image)?;
        return Ok(FittedImage::Encoded(format, encoded));
    }
    let rgba = DynamicImage::ImageRgba8(image.to_rgba8());
    rgba.write_to(&mut Cursor::new(&mut encoded), ImageFormat::Png)?;
    Ok(FittedImage::Encoded(ImageFormat::Png, encoded))
}

fn url(format: ImageFormat, bytes: &[u8]) -> String {
    let encoded = STANDARD.encode(bytes);
    format!("data:{};base64,{encoded}", format.to_mime_type())
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoke_files::MemoryTree;

    fn png(width: u32, height: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        let image = DynamicImage::new_rgb8(width, height);
        image.write_to(&mut Cursor::new(&mut bytes), ImageFormat::Png).unwrap();
        bytes
    }

    fn read(path: &str, bytes: &[u8]) -> Result<String, String> {
        let mut tree = MemoryTree::default();
        tree.write("/i/there", "");
        tree.write(format!("/i/{path}"), bytes);
        data_url(&tree, &Path::new("/i").join(path), Path::new(path))
    }

    #[test]
    fn an_image_that_fits_is_sent_as_it_is() {
        let bytes = png(2, 3);
        let url = read("a.png", &bytes).unwrap();
        assert_eq!(url, format!("data:image/png;base64,{}", STANDARD.encode(&bytes)));
    }

    #[test]
    fn a_larger_image_is_made_to_fit() {
        for ((width, height), expected) in [((4000, 100), (2048, 51)), ((100, 1536), (50, 768))] {
            let url = read("a.png", &png(width, height)).unwrap();
            let encoded = url.strip_prefix("data:image/png;base64,").unwrap();
            let image = image::load_from_memory(&STANDARD.decode(encoded).unwrap()).unwrap();
            assert_eq!(image.dimensions(), expected);
        }
    }

    #[test]
    fn what_cannot_be_attached_is_reported_as_text() {
        let mut corrupt = png(2, 2);
        corrupt[29] ^= 0xff;
        let cases = [
            (
                read("a.png", b"not an image"),
                "Codex cannot attach image at `a.png`: unsupported image format `image/png`.",
            ),
            (
                read("a.svg", b"<svg/>"),
                "Codex cannot attach image at `a.svg`: unsupported image format `image/svg+xml`.",
            ),
            (
                read("a.txt", b"text"),
                "Codex could not read the local image at `a.txt`: unsupported MIME type `text/plain`",
            ),
            (
                read("a", b"text"),
                "Codex could not read the local image at `a`: unsupported MIME type (unknown)",
            ),
            (
                read("a.png", &corrupt),
                "Image located at `a.png` is invalid: failed to decode image at a.png: ",
            ),
            (
                data_url(&MemoryTree::default(), Path::new("/x.png"), Path::new("x.png")),
                "Codex could not read the local image at `x.png`: failed to read image at x.png: No such file or directory (os error 2)",
            ),
        ];
        for (told, expected) in cases {
            let told = told.unwrap_err();
            assert!(told.starts_with(expected), "{told}");
        }
    }
}
