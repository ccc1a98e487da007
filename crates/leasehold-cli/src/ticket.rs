//! The ticket that a command acts on.

use std::{
    env,
    fs::File,
    io::{self, Read},
};

use leasehold::Ticket;

use crate::{args::TicketArgs, failure::Failure};

const VARIABLE: &str = "LEASEHOLD_TICKET";

/// Longer than any ticket: what is longer is another file.
const MOST_BYTES: u64 = 64 * 1024;

/// Reads it from `--ticket`, `--ticket-file`, stdin or the variable, in this order.
pub(crate) fn read(args: &TicketArgs) -> Result<Ticket, Failure> {
    let (source, text) = match (&args.ticket, &args.ticket_file) {
        (Some(ticket), _) if &**ticket == "-" => ("stdin".to_owned(), all_of("stdin", io::stdin().lock())?),
        (Some(ticket), _) => ("--ticket".to_owned(), ticket.to_string()),
        (None, Some(path)) => {
            let source = path.display().to_string();
            let file = File::open(path).map_err(|error| unreadable(&source, &error))?;
            let text = all_of(&source, file)?;
            (source, text)
        }
        (None, None) => match env::var(VARIABLE) {
            Ok(ticket) => (VARIABLE.to_owned(), ticket),
            Err(env::VarError::NotUnicode(_)) => {
                return Err(Failure::usage(format!("{VARIABLE} is not a ticket: it is not UTF-8"), HINT));
            }
            Err(env::VarError::NotPresent) => return Err(Failure::usage("a ticket is needed", HINT)),
        },
    };
    text.parse::<Ticket>().map_err(|error| error.context(&source).into())
}

const HINT: &str = "give the ticket that `leasehold acquire` printed, by --ticket-file FILE, by --ticket - on stdin, \
     by LEASEHOLD_TICKET or by --ticket";

fn all_of(source: &str, from: impl Read) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    from.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(|error| unreadable(source, &error))?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(Failure::usage(format!("{source} is not a ticket: it is too long"), HINT));
    }
    String::from_utf8(bytes).map_err(|_| Failure::usage(format!("{source} is not a ticket: it is not UTF-8"), HINT))
}

fn unreadable(source: &str, error: &io::Error) -> Failure {
    Failure::usage(format!("the ticket could not be read from {source}: {error}"), HINT)
}
