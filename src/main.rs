//! Arguments to `cli`, its result to an exit code; nothing else.

/// Many small buffers per request from several threads: the system's allocator spends a tenth of a request on them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    tidegate::cli::main()
}
