//! Counts instructions with Valgrind, which gives the same figure on a busy machine as on an idle one.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// The variable that names the directory for Callgrind's counts in a process that runs under it.
const COUNTS: &str = "CONVOKE_BENCH_COUNTS";

/// Runs a group of measurements of this program under Valgrind, with the given variable set.
pub fn run_counted(group: &str, variable: (&str, &str)) -> std::io::Result<ExitStatus> {
    let counts = tempfile::tempdir()?;
    let mut file = OsString::from("--callgrind-out-file=");
    file.push(counts.path().join("counts"));
    Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet", "--instr-atstart=no", "--read-inline-info=no"])
        .arg(file)
        .arg(std::env::current_exe()?)
        .arg(group)
        .env(COUNTS, counts.path())
        .env(variable.0, variable.1)
        .status()
}

/// Returns the directory for counts, in a process that runs under Valgrind.
pub fn directory() -> Option<PathBuf> {
    std::env::var_os(COUNTS).map(PathBuf::from)
}

/// Returns how many instructions all threads of the process execute during a run.
pub fn count(directory: &Path, run: impl FnOnce()) -> f64 {
    request(Request::StartCounting);
    run();
    request(Request::StopCounting);
    request(Request::WriteCounts);
    let files = fs::read_dir(directory).into_iter().flatten().flatten();
    files.filter_map(|file| total(&file.path())).sum()
}

/// Returns the sum in a file of counts, which it removes.
fn total(file: &Path) -> Option<f64> {
    let mut lines = BufReader::new(File::open(file).ok()?).lines().map_while(Result::ok);
    let total = lines.find_map(|line| line.strip_prefix("totals:").map(str::trim)?.parse().ok());
    fs::remove_file(file).ok()?;
    total
}

/// A request to Callgrind, by its number in the tool's own header.
#[derive(Clone, Copy)]
enum Request {
    WriteCounts = 0,
    StartCounting = 4,
    StopCounting = 5,
}

/// Sends a request to Valgrind; outside of it these instructions do nothing.
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "Valgrind is spoken to by a sequence of instructions")]
fn request(request: Request) {
    const CALLGRIND: u64 = 0x4354_0000;
    let arguments = [CALLGRIND + request as u64, 0, 0, 0, 0, 0];
    // SAFETY: the rotations add up to two whole turns and the exchange is of a register with itself, so that nothing
    // changes; Valgrind reads `arguments` and writes its answer to `rdx`.
    unsafe {
        std::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") arguments.as_ptr(),
            inout("rdx") 0_u64 => _,
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn request(_: Request) {}
