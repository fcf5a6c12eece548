//! Objects of the store that are files of their own, in git's format. They are read here, because a process of git for a few
//! hundred of them costs more than their contents. Those in packs are left to git.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::ZlibDecoder;

use crate::change::Oid;
use crate::content::blob;

/// The bytes of `blob`, a size and its end.
const HEADER: usize = 32;
/// What compression may add to a content: its header, and some bytes of each block.
const OVERHEAD: u64 = 1 << 10;

/// Reads the content of an object up to a limit. `None` if it is no such file, or not what its name says: git can tell why.
pub(crate) fn read_loose(repository: &Path, oid: Oid, limit: u64) -> Option<Vec<u8>> {
    let file = File::open(path_of(repository, oid)).ok()?;
    let content = contents(file, limit).ok()?;
    // An object is not taken for another, whoever wrote it.
    (blob(&content) == oid).then_some(content)
}

fn path_of(repository: &Path, oid: Oid) -> PathBuf {
    let name = oid.to_string();
    let (directory, rest) = name.split_at(2);
    repository.join("objects").join(directory).join(rest)
}

fn contents(file: File, limit: u64) -> io::Result<Vec<u8>> {
    let damaged = || io::Error::from(io::ErrorKind::InvalidData);
    // Contents that cannot be compressed get longer by less than a thousandth.
    let most = limit.saturating_add(limit / 1_000).saturating_add(OVERHEAD);
    let mut packed =
        Vec::with_capacity(usize::try_from(file.metadata()?.len().min(most)).unwrap_or(0));
    #[expect(clippy::disallowed_methods, reason = "bounded by `take`")]
    file.take(most).read_to_end(&mut packed)?;
    let mut stream = ZlibDecoder::new(packed.as_slice());
    let mut header = Vec::with_capacity(HEADER);
    loop {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        if byte == [0] {
            break;
        }
        if header.len() == HEADER {
            return Err(damaged());
        }
        header.push(byte[0]);
    }
    let size = str::from_utf8(&header).ok().and_then(|header| header.strip_prefix("blob "));
    let size: u64 = size.and_then(|size| size.parse().ok()).ok_or_else(damaged)?;
    if size > limit {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut content = vec![0; usize::try_from(size).map_err(|_| damaged())?];
    stream.read_exact(&mut content)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn an_object_of_git_is_read_whole_or_not_at_all() {
        let place = tempfile::tempdir().unwrap();
        let git = |arguments: &[&str]| {
            let mut git = Command::new("git");
            git.args(arguments).current_dir(place.path()).env("GIT_CONFIG_GLOBAL", "/dev/null");
            String::from_utf8(git.output().unwrap().stdout).unwrap()
        };
        git(&["init", "-q", "."]);
        let repository = place.path().join(".git");
        for content in [&b""[..], b"a\0b\n", &[7; 10_000]] {
            std::fs::write(place.path().join("file"), content).unwrap();
            let oid = Oid::parse(git(&["hash-object", "-w", "file"]).trim()).unwrap();
            let size = content.len() as u64;
            assert_eq!(read_loose(&repository, oid, size).as_deref(), Some(content));
            if let Some(less) = size.checked_sub(1) {
                assert_eq!(read_loose(&repository, oid, less), None);
            }
            let (path, other) = (path_of(&repository, oid), path_of(&repository, Oid([7; 20])));
            std::fs::create_dir_all(other.parent().unwrap()).unwrap();
            std::fs::copy(&path, &other).unwrap();
            assert_eq!(read_loose(&repository, Oid([7; 20]), size), None, "it is another one");
            // An object is read-only: only root could write over it the next time.
            std::fs::remove_file(&other).unwrap();
            let half = std::fs::read(&path).unwrap();
            std::fs::remove_file(&path).unwrap();
            assert_eq!(read_loose(&repository, oid, size), None);
            std::fs::write(&path, &half[..half.len() / 2]).unwrap();
            assert_eq!(read_loose(&repository, oid, size), None);
        }
    }
}
