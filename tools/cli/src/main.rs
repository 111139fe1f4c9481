//! The `stillframe` binary; the library beside it has the commands.

fn main() -> std::process::ExitCode {
    stillframe_cli::main()
}
