//! Which store.

use std::env;

use leasehold::{Client, SCHEMES, StoreUrl};

use crate::{args::Common, failure::Failure};

const VARIABLE: &str = "LEASEHOLD_STORE";

/// A store, and how CMD is told of it.
#[derive(Debug)]
pub(crate) struct Chosen {
    url: StoreUrl,
    /// What CMD finds in its environment; `None`: what we found there.
    pub(crate) for_child: Option<String>,
}

impl Chosen {
    /// By `--store`, else the variable, else the embedded one of this user.
    pub(crate) fn new(common: &Common) -> Result<Self, Failure> {
        if let Some(given) = &common.store {
            let url = parse("--store", given)?;
            let for_child = Some(for_child(&url));
            return Ok(Self { url, for_child });
        }
        match env::var(VARIABLE) {
            Ok(given) => Ok(Self { url: parse(VARIABLE, &given)?, for_child: None }),
            Err(env::VarError::NotPresent) => {
                let url = StoreUrl::embedded()?;
                let for_child = Some(url.to_string());
                Ok(Self { url, for_child })
            }
            Err(env::VarError::NotUnicode(_)) => {
                Err(Failure::usage(format!("{VARIABLE} is not UTF-8"), "a store is named by a URL in UTF-8"))
            }
        }
    }

    /// Opens it.
    pub(crate) async fn open(&self) -> Result<Client, Failure> {
        Ok(Client::builder().url(self.url.clone()).open().await?)
    }
}

/// On a command line a password is for us alone; and CMD may go to another directory.
fn for_child(url: &StoreUrl) -> String {
    let shown = url.to_string();
    let file = shown.strip_prefix("sqlite:").filter(|path| !path.is_empty());
    match file.and_then(|path| std::path::absolute(path).ok()) {
        Some(path) => format!("sqlite:{}", path.display()),
        None => shown,
    }
}

fn parse(source: &str, given: &str) -> Result<StoreUrl, Failure> {
    if given.is_empty() {
        // To fall back on another store than the one that was meant would be two locks instead of one.
        return Err(Failure::usage(
            format!("{source} is empty"),
            "name a store, for example sqlite:/path/leases.db, or leave it out for the embedded one",
        ));
    }
    let url = StoreUrl::parse(given)
        .map_err(|error| Failure { hint: what_there_is(), ..Failure::from(error.context(source)) })?;
    if given.starts_with("memory:") {
        return Err(Failure::usage(
            format!("{source}: memory: keeps leases for one process only, so that no other would see them"),
            "it is for programs that use the library; name a store that processes share, or leave it out",
        ));
    }
    Ok(url)
}

/// The stores of this build that processes share.
fn what_there_is() -> String {
    let shared = SCHEMES.iter().filter(|(scheme, _)| *scheme != "memory").map(|(_, example)| *example);
    format!("this build has {}", shared.collect::<Vec<_>>().join(", "))
}
