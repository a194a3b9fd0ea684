//! Keeps stdout for the host: whatever else is printed, by this program or by a child, goes to stderr, its log.
use std::fs::File;
use std::io;
use std::os::fd::AsFd;

extern "C" {
    fn dup2(from: i32, to: i32) -> i32;
}

/// Takes stdout; the file returned is the only way left to write to it.
pub fn claim() -> io::Result<File> {
    let kept = io::stdout().as_fd().try_clone_to_owned()?;
    // SAFETY: both are descriptors of this process, and nobody holds what was behind the second any more.
    if unsafe { dup2(2, 1) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(File::from(kept))
}
