//! `leasehold completions SHELL`

use std::io::{self, Write};

use clap::CommandFactory;

use crate::{
    args::{self, Cli},
    exit::Exit,
    failure::Failure,
};

pub(crate) fn run(args: &args::Completions) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "leasehold", &mut script);
    print(&script)
}

/// Writes a document to stdout as it is.
pub(super) fn print(document: &[u8]) -> Result<Exit, Failure> {
    match io::stdout().write_all(document) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(leasehold::Error::refused(format!("it could not be written: {error}"), "look at where stdout goes")
                .into())
        }
        _ => Ok(Exit::Done),
    }
}
