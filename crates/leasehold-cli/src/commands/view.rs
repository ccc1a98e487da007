//! A lease as `status` and `list` show it.

use std::fmt::Write as _;

use leasehold::{HolderView, LeaseView, Phase, WaiterView};
use serde::Serialize;

use crate::output::{Paint, millis, span, visible};

#[derive(Serialize)]
pub(super) struct Document<'a> {
    name: &'a str,
    state: &'static str,
    holders: Vec<Holder<'a>>,
    queue: Option<Vec<Waiter<'a>>>,
}

#[derive(Serialize)]
struct Holder<'a> {
    fence: Option<u64>,
    owner: &'a str,
    reason: Option<&'a str>,
    acquired_at: Option<String>,
    expires_in_ms: Option<u64>,
    phase: Phase,
}

#[derive(Serialize)]
struct Waiter<'a> {
    position: u32,
    owner: &'a str,
    reason: Option<&'a str>,
    waiting_ms: u64,
    silent: bool,
}

impl<'a> From<&'a LeaseView> for Document<'a> {
    fn from(view: &'a LeaseView) -> Self {
        Self {
            name: view.name.as_str(),
            state: state(view),
            holders: view.holders.iter().map(Holder::from).collect(),
            queue: view.queue.as_ref().map(|queue| queue.iter().map(Waiter::from).collect()),
        }
    }
}

impl<'a> From<&'a HolderView> for Holder<'a> {
    fn from(holder: &'a HolderView) -> Self {
        Self {
            fence: holder.fence,
            owner: &holder.owner,
            reason: holder.reason.as_deref(),
            acquired_at: holder.acquired_at().map(|at| humantime::format_rfc3339_millis(at).to_string()),
            expires_in_ms: holder.expires_in.map(millis),
            phase: holder.phase,
        }
    }
}

impl<'a> From<&'a WaiterView> for Waiter<'a> {
    fn from(waiter: &'a WaiterView) -> Self {
        Self {
            position: waiter.position,
            owner: &waiter.owner,
            reason: waiter.reason.as_deref(),
            waiting_ms: millis(waiter.waiting),
            silent: waiter.silent,
        }
    }
}

fn state(view: &LeaseView) -> &'static str {
    if view.holders.is_empty() { "free" } else { "held" }
}

/// One lease, for people.
pub(super) fn page(view: &LeaseView, paint: Paint) -> String {
    let mut page = String::new();
    let state = match state(view) {
        "free" => paint.green("free"),
        held => paint.yellow(held),
    };
    let _ = write!(page, "{} is {state}", paint.bold(&visible(view.name.as_str())));
    for holder in &view.holders {
        let mut line = |label: &str, value: &str| {
            let _ = write!(page, "\n  {} {}", paint.dim(&format!("{label:<8}")), visible(value));
        };
        line("owner", &holder.owner);
        if let Some(reason) = &holder.reason {
            line("reason", reason);
        }
        line("fence", &holder.fence.map_or("none on this store".to_owned(), |fence| fence.to_string()));
        if let Some(since) = holder.acquired_at() {
            line("since", &humantime::format_rfc3339_seconds(since).to_string());
        }
        line("left", &left(holder));
    }
    match &view.queue {
        None => {
            let _ = write!(page, "\n  {} not known on this store", paint.dim("queue   "));
        }
        Some(queue) => {
            for waiter in queue {
                let label = if waiter.position == 1 { "queue" } else { "" };
                let reason = waiter.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
                let silent = if waiter.silent { ", silent" } else { "" };
                let text =
                    format!("{}. {}{reason}, waiting {}{silent}", waiter.position, waiter.owner, span(waiter.waiting));
                let _ = write!(page, "\n  {} {}", paint.dim(&format!("{label:<8}")), visible(&text));
            }
        }
    }
    page
}

fn left(holder: &HolderView) -> String {
    let left = holder.expires_in.map_or("for ever".to_owned(), span);
    match holder.phase {
        Phase::Offered => format!("{left}, offered and not yet confirmed"),
        Phase::Broken => format!("{left}, broken: it may not be renewed"),
        Phase::Lingering => format!("{left}, done: it stays taken until then"),
        _ => left,
    }
}

/// Many leases, for people.
pub(super) fn table(views: &[LeaseView], paint: Paint) -> String {
    let mut rows = vec![["NAME", "FENCE", "OWNER", "LEFT", "WAITING", "REASON"].map(str::to_owned)];
    for view in views {
        let name = visible(view.name.as_str()).into_owned();
        let waiting = view.queue.as_ref().map_or("?".to_owned(), |queue| queue.len().to_string());
        if view.holders.is_empty() {
            rows.push([name, "-".into(), "free".into(), "-".into(), waiting, String::new()]);
            continue;
        }
        for holder in &view.holders {
            rows.push([
                name.clone(),
                holder.fence.map_or("-".to_owned(), |fence| fence.to_string()),
                visible(&holder.owner).into_owned(),
                holder.expires_in.map_or("for ever".to_owned(), span),
                waiting.clone(),
                visible(holder.reason.as_deref().unwrap_or_default()).into_owned(),
            ]);
        }
    }
    let mut widths = [0; 6];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let lines = rows.iter().enumerate().map(|(index, row)| {
        let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        let line = cells.join("  ");
        let line = line.trim_end();
        if index == 0 { paint.dim(line).into_owned() } else { line.to_owned() }
    });
    lines.collect::<Vec<_>>().join("\n")
}
