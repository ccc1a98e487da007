//! `leasehold man`

use std::{fs, path::Path};

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::{
    args::{self, Cli},
    exit::Exit,
    failure::Failure,
};

pub(crate) fn run(args: &args::Man) -> Result<Exit, Failure> {
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    let pages = pages(&root)?;
    match &args.dir {
        None => super::completions::print(&pages.into_iter().flat_map(|(_, page)| page).collect::<Vec<u8>>()),
        Some(dir) => {
            write(dir, &pages).map_err(|error| {
                Failure::usage(
                    format!("the pages could not be written to {}: {error}", dir.display()),
                    "name a directory that can be written to; it is made if it is not there",
                )
            })?;
            Ok(Exit::Done)
        }
    }
}

fn write(dir: &Path, pages: &[(String, Vec<u8>)]) -> std::io::Result<()> {
    fs::create_dir_all(dir)?;
    pages.iter().try_for_each(|(name, page)| fs::write(dir.join(name), page))
}

/// Examples are set as they stand, line by line, up to the next section.
const EXTRA: &str = ".SH EXTRA\n";
const NOTES: &str = ".SH EXAMPLES AND NOTES\n.nf\n";

/// The page of the command, then one for each subcommand: file name and text.
fn pages(root: &Command) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    std::iter::once(root)
        .chain(root.get_subcommands())
        .map(|command| {
            let man = Man::new(command.clone()).source(concat!("leasehold ", env!("CARGO_PKG_VERSION")));
            let mut page = Vec::new();
            man.render(&mut page).map_err(|error| Failure::system("a manual page could not be made", error))?;
            let page = String::from_utf8_lossy(&page).replacen(EXTRA, NOTES, 1);
            Ok((man.get_filename(), page.into_bytes()))
        })
        .collect()
}
