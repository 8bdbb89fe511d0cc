//! The `weir` program: everything it does is in the library.

fn main() -> std::process::ExitCode {
    weir::cli::main()
}
