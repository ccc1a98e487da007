//! A record as a row keeps it.

use crate::{
    engine::{Record, Span},
    error::Error,
};

/// The first byte of each record.
const FORMAT: u8 = 1;

/// What is kept of one name.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) id: i64,
    pub(super) era: u64,
    pub(super) record: Record,
}

/// Puts the record's bytes into `buffer`.
pub(super) fn encode(record: &Record, buffer: &mut Vec<u8>) -> Result<(), Error> {
    buffer.clear();
    buffer.push(FORMAT);
    let bytes = postcard::to_extend(record, std::mem::take(buffer));
    *buffer = bytes.map_err(|error| Error::internal("a record cannot be written").because(error))?;
    Ok(())
}

/// Reads what [`encode`] wrote, and nothing else.
pub(super) fn decode(name: &str, bytes: &[u8]) -> Result<Record, Error> {
    let damaged = |why: &str| {
        Error::corrupt(
            format!("the record of {name} cannot be read: {why}"),
            "it was left as it is, and other names are not affected; an operator has to look at it",
        )
    };
    match bytes.split_first() {
        Some((&FORMAT, bytes)) => match postcard::take_from_bytes::<Record>(bytes) {
            Ok((record, [])) if is_plausible(&record) => Ok(record),
            Ok((_, [])) => Err(damaged("its numbers make no sense")),
            Ok(_) => Err(damaged("it is longer than it should be")),
            Err(error) => Err(damaged("it is damaged").because(error)),
        },
        Some((&format, _)) if format > FORMAT => Err(Error::unsupported(
            format!("the record of {name} was written by a later version of Leasehold"),
            "upgrade Leasehold here",
        )),
        Some(_) => Err(damaged("it has no known format")),
        None => Err(damaged("it is empty")),
    }
}

/// Whether the engine can count on from here: no number is at the end of its range.
fn is_plausible(record: &Record) -> bool {
    const MOST: u64 = 1 << 62;
    let short = |span: Span| span.duration().is_none_or(|span| span.as_secs() < 1 << 40);
    let permits = record.holders.iter().try_fold(0u32, |sum, holder| sum.checked_add(holder.permits));
    record.fence < MOST
        && record.next_place < MOST
        && permits.is_some()
        && record.holders.iter().all(|holder| holder.fence <= record.fence && holder.tenure < u32::MAX)
        && record.queue.iter().all(|waiter| waiter.place < record.next_place && short(waiter.window))
}

/// Stands for the holders whose leases never expire. Another number means that others hold for ever now, and that must
/// outlast a power cut.
pub(super) fn forever(record: &Record) -> u64 {
    let holders = record.holders.iter().filter(|holder| holder.term.span == Span::NEVER);
    // No two grants have the same fence, and a hand-over has a new one.
    holders.fold(0, |mark, holder| mark ^ holder.fence)
}
