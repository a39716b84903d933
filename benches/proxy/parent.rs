//! Helpers end with the benchmark that started them, however it ends.

use std::io::Read;

/// Ends this process when its standard input closes, as it does when the process at the other end has gone.
pub fn end_with_parent() {
    std::thread::spawn(|| {
        // closed or broken, either way nobody is there any more
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
}
