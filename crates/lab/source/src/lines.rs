//! Lines of a file that may be very large, and that another program may be writing.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use convoke_protocol::window::{At, Place};
use memchr::{memchr, memchr3_iter};
use rustix::fs::{Mode, OFlags};
use ruzstd::decoding::StreamingDecoder;

/// The maximum size of a line, in bytes. A longer one is passed over.
pub const MAX_LINE: usize = 16 << 20;
/// The maximum number of values in a line of JSON, counted by the marks before them.
const MAX_VALUES: usize = 400_000;
/// The maximum size of a compressed file's content, in bytes: a small file can hold much more than anybody wrote.
const MAX_DECOMPRESSED: u64 = 16 << 30;
const BUFFER: usize = 256 << 10;

/// Opens a regular file, without following a link and without waiting for a writer.
pub fn open_file(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    Ok(file)
}

/// Reads the complete lines of a file, and those that are added to it.
pub struct Lines {
    path: PathBuf,
    name: Arc<str>,
    source: Source,
    /// The line that is being read.
    line: Vec<u8>,
    /// The number of the last line.
    number: u64,
    /// Where the last line begins, and where the next one does, in bytes of the text.
    offset: u64,
    next_offset: u64,
}

/// A place between two lines, from which a file can be read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    /// The bytes before it.
    pub offset: u64,
    /// The number of lines before it.
    pub lines: u64,
}

enum Source {
    Plain(BufReader<File>),
    /// A compressed file is complete: nothing is added to it.
    Compressed(Box<BufReader<io::Take<StreamingDecoder<File, ruzstd::decoding::FrameDecoder>>>>),
}

/// A line of a file.
#[derive(Debug)]
pub enum Line<'l> {
    /// A complete line, without its end.
    Complete { number: u64, bytes: &'l [u8] },
    /// A line that is too large to be read.
    TooLarge { number: u64 },
    /// The end of the file; the last line may have no end yet.
    End { is_torn: bool },
}

impl Lines {
    /// Opens a file; one whose name ends in `.zst` is decompressed.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = open_file(path)?;
        let source = if path.extension().is_some_and(|it| it == "zst") {
            let decoder = StreamingDecoder::new(file).map_err(io::Error::other)?;
            let decoder = decoder.take(MAX_DECOMPRESSED);
            Source::Compressed(Box::new(BufReader::with_capacity(BUFFER, decoder)))
        } else {
            Source::Plain(BufReader::with_capacity(BUFFER, file))
        };
        let name = path.to_string_lossy().into();
        let path = path.to_owned();
        Ok(Self { path, name, source, line: Vec::new(), number: 0, offset: 0, next_offset: 0 })
    }

    /// Opens a file at a position where it was read before. A file that has become shorter has no more lines there.
    pub fn open_at(path: &Path, position: Position) -> io::Result<Self> {
        let mut lines = Self::open(path)?;
        match &mut lines.source {
            Source::Plain(reader) => {
                reader.seek(SeekFrom::Start(position.offset))?;
            }
            Source::Compressed(reader) => {
                io::copy(&mut reader.by_ref().take(position.offset), &mut io::sink())?;
            }
        }
        lines.number = position.lines;
        lines.next_offset = position.offset;
        Ok(lines)
    }

    /// Returns the position behind the last line.
    pub fn position(&self) -> Position {
        Position { offset: self.next_offset, lines: self.number }
    }

    /// Returns where the last line begins, in bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the place of a line.
    pub fn place(&self, number: u64) -> Place {
        Place { file: self.name.clone(), at: At::Line(number) }
    }

    /// Reads the next complete line. After the end of the file, a later call reads what was added since.
    #[expect(clippy::should_implement_trait, reason = "a line borrows from its reader")]
    pub fn next(&mut self) -> io::Result<Line<'_>> {
        let reader: &mut dyn BufRead = match &mut self.source {
            Source::Plain(reader) => reader,
            Source::Compressed(reader) => reader,
        };
        self.line.clear();
        let mut read = 0_u64;
        let mut is_too_large = false;
        let is_complete = loop {
            let buffer = match reader.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if buffer.is_empty() {
                break false;
            }
            let end = memchr(b'\n', buffer);
            let piece = &buffer[..end.unwrap_or(buffer.len())];
            is_too_large |= self.line.len() + piece.len() > MAX_LINE;
            if is_too_large {
                self.line = Vec::new();
            } else {
                self.line.extend_from_slice(piece);
            }
            let used = piece.len() + usize::from(end.is_some());
            read += used as u64;
            reader.consume(used);
            if end.is_some() {
                break true;
            }
        };
        if !is_complete {
            return self.end(read);
        }
        self.number += 1;
        self.offset = self.next_offset;
        self.next_offset += read;
        let number = self.number;
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        if is_too_large || memchr3_iter(b',', b'[', b'{', &self.line).nth(MAX_VALUES).is_some() {
            return Ok(Line::TooLarge { number });
        }
        Ok(Line::Complete { number, bytes: &self.line })
    }

    /// Returns to the beginning of a line without an end, which is read again when it is complete.
    fn end(&mut self, read: u64) -> io::Result<Line<'_>> {
        match &mut self.source {
            Source::Plain(reader) if read > 0 => {
                let back = i64::try_from(read).map_err(io::Error::other)?;
                reader.seek(SeekFrom::Current(-back))?;
                Ok(Line::End { is_torn: true })
            }
            // A complete file may end without the end of a line.
            Source::Compressed(_) if read > 0 => {
                self.number += 1;
                self.offset = self.next_offset;
                self.next_offset += read;
                Ok(Line::Complete { number: self.number, bytes: &self.line })
            }
            _ => Ok(Line::End { is_torn: false }),
        }
    }
}

/// Reads the line that begins at a place of a file, as far as it may be read.
pub fn line_at(file: &File, offset: u64) -> io::Result<Vec<u8>> {
    let mut reader = BufReader::with_capacity(16 << 10, file);
    reader.seek(SeekFrom::Start(offset))?;
    let mut line = Vec::new();
    reader.take(MAX_LINE as u64).read_until(b'\n', &mut line)?;
    Ok(line)
}

/// Reads the beginning of a file.
#[expect(clippy::disallowed_methods, reason = "bounded by `take`")]
pub fn beginning(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if path.extension().is_some_and(|it| it == "zst") {
        let decoder = StreamingDecoder::new(open_file(path)?).map_err(io::Error::other)?;
        decoder.take(max_bytes).read_to_end(&mut bytes)?;
    } else {
        open_file(path)?.take(max_bytes).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}
