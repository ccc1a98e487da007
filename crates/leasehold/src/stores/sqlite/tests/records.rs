//! Rows: damaged ones, idle ones, and many.

use super::*;
use crate::{
    engine::{Check, HoldReply, Holder, Leave, LeaveReply, Record, Renew},
    error::{ErrorKind, Loss},
};

fn frames(store: &RegisterStore<Sqlite>) -> u32 {
    store.0.core.database().log.load(Ordering::Relaxed)
}

fn rows(room: &Room) -> i64 {
    room.raw().query_row("SELECT count(*) FROM leases", (), |row| row.get(0)).unwrap()
}

#[test]
fn a_damaged_record_is_an_error_for_its_name_alone_and_stays() {
    let room = Room::new();
    let store = room.open();
    for text in ["a", "b", "c"] {
        granted(ask(&store, text, claim(1)).unwrap());
    }
    let whole: Vec<u8> =
        room.raw().query_row("SELECT record FROM leases WHERE name = 'b'", (), |row| row.get(0)).unwrap();
    let encoded = |record: &Record| {
        let mut bytes = Vec::new();
        row::encode(record, &mut bytes).unwrap();
        bytes
    };
    let last_fence = encoded(&Record { fence: u64::MAX, ..Record::default() });
    let mut impossible = row::decode("b", &whole).unwrap();
    impossible.holders.push(Holder { permits: u32::MAX, ..impossible.holders[0].clone() });
    let impossible = encoded(&impossible);
    let mut longer = whole.clone();
    longer.push(0);
    let cases: [&[u8]; 7] = [&[], &whole[..whole.len() / 2], &[1], &longer, &last_fence, &impossible, &[0; 40]];
    for damaged in cases {
        room.raw().execute("UPDATE leases SET record = ?1 WHERE name = 'b'", (damaged,)).unwrap();
        for error in [
            ask(&store, "b", claim(2)).unwrap_err(),
            ask(&store, "b", release(1)).unwrap_err(),
            ask(&store, "b", Check { id: id(1), fence: 1 }).unwrap_err(),
            pollster::block_on(store.inspect(&name("b"))).unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{damaged:?}: {error}");
            assert!(error.to_string().contains('b') && !error.hint().is_empty(), "{error}");
        }
        let kept: Vec<u8> =
            room.raw().query_row("SELECT record FROM leases WHERE name = 'b'", (), |row| row.get(0)).unwrap();
        assert_eq!(kept, damaged);
    }
    let listed = pollster::block_on(store.list("")).unwrap();
    assert_eq!(listed.iter().map(|view| view.name.as_str()).collect::<Vec<_>>(), ["a", "c"]);

    let renew = |text: &str| {
        let fence = pollster::block_on(store.inspect(&name(text))).map_or(1, |view| view.holders[0].fence.unwrap());
        (name(text), Renew { id: id(1), fence, tenure: None, not_after_ms: None })
    };
    let renewed = pollster::block_on(store.renew_all(vec![renew("a"), renew("b"), renew("c")])).unwrap();
    assert!(matches!(renewed[..], [Ok(HoldReply::Held { .. }), Err(_), Ok(HoldReply::Held { .. })]), "{renewed:?}");
}

#[test]
fn a_record_of_a_later_version_asks_for_an_upgrade() {
    let room = Room::new();
    let store = room.open();
    once(&store, "a", 1);
    room.raw().execute("UPDATE leases SET record = x'02ffff'", ()).unwrap();
    assert_eq!(ask(&store, "a", claim(2)).unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn what_changes_nothing_writes_nothing() {
    let room = Room::new();
    let (store, other) = (room.open(), room.open());
    let fence = granted(ask(&store, "a", claim(1)).unwrap()).fence;
    let before = frames(&store);
    assert!(before > 0);
    assert!(matches!(ask(&store, "a", Check { id: id(1), fence }).unwrap(), HoldReply::Held { .. }));
    assert_eq!(ask(&store, "b", Check { id: id(1), fence }).unwrap(), HoldReply::Lost(Loss::Expired));
    assert!(matches!(ask(&store, "a", claim(2)).unwrap(), ClaimReply::Held(_)));
    granted(ask(&store, "a", claim(1)).unwrap());
    assert_eq!(ask(&store, "a", Leave { id: id(9), remember: None }).unwrap(), LeaveReply::Absent);
    pollster::block_on(store.inspect(&name("a"))).unwrap();
    pollster::block_on(store.list("")).unwrap();
    granted(ask(&other, "c", claim(1)).unwrap());
    // One row of a new name: its page, and its place in the index.
    assert!(frames(&other) <= before + 2, "{} after {before}", frames(&other));
}

#[test]
fn who_was_woken_confirms_without_a_commit() {
    let room = Room::new();
    let (holder, waiter, probe) = (room.open(), room.open(), room.open());
    granted(ask(&holder, "a", claim(1)).unwrap());
    assert!(matches!(ask(&waiter, "a", queueing(&waiter, 2)).unwrap(), ClaimReply::Queued(_)));
    once(&probe, "b", 3);
    ask(&holder, "a", release(1)).unwrap();
    let told = waking::hint(&waiter).news.offer();
    let before = frames(&holder);
    let grant = granted(ask(&waiter, "a", Claim { told, ..queueing(&waiter, 2) }).unwrap());
    assert!(grant.offered);
    once(&probe, "b", 4);
    assert_eq!(frames(&probe), before + 2, "a claim and a release of a row that is there, nothing else");

    // What has to be written is written: a heartbeat, and the place of one that comes later.
    assert!(matches!(ask(&holder, "a", queueing(&holder, 5)).unwrap(), ClaimReply::Queued(_)));
    let before = frames(&holder);
    room.clock.nanos.fetch_add(1_000_000, Ordering::SeqCst);
    assert!(matches!(ask(&holder, "a", queueing(&holder, 5)).unwrap(), ClaimReply::Queued(_)));
    assert!(frames(&holder) > before);
}

#[test]
fn who_only_looks_does_not_wait_for_writers() {
    let room = Room::new();
    let (holder, waiter) = (room.open(), room.open());
    let fence = granted(ask(&holder, "a", claim(1)).unwrap()).fence;
    ask(&waiter, "a", queueing(&waiter, 2)).unwrap();
    ask(&holder, "a", release(1)).unwrap();
    let told = waking::hint(&waiter).news.offer();

    let turn = fs::File::open(room.beside("-turn")).unwrap();
    turn.lock().unwrap();
    let (done, looked) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        ask(&holder, "a", Check { id: id(1), fence }).unwrap();
        pollster::block_on(holder.inspect(&name("a"))).unwrap();
        pollster::block_on(holder.list("")).unwrap();
        granted(ask(&waiter, "a", Claim { told, ..queueing(&waiter, 2) }).unwrap());
        done.send(()).unwrap();
    });
    looked.recv_timeout(std::time::Duration::from_secs(10)).expect("nobody has to wait for the turnstile");
}

#[test]
fn the_list_is_of_a_prefix_and_in_order() {
    let room = Room::new();
    let store = room.open();
    for (number, text) in ["b/2", "a", "b/1", "b", "b0", "b/", "ü", "b/\u{10FFFF}"].into_iter().enumerate() {
        granted(ask(&store, text, claim(number as u128)).unwrap());
    }
    once(&store, "b/idle", 99);
    let list = |prefix| {
        let views = pollster::block_on(store.list(prefix)).unwrap();
        views.iter().map(|view| view.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(list("b/"), ["b/", "b/1", "b/2", "b/\u{10FFFF}"]);
    assert_eq!(list("ü"), ["ü"]);
    assert_eq!(list("c"), [""; 0]);
    assert_eq!(list("").len(), 8);
}

#[test]
fn idle_names_are_swept_and_their_fences_still_grow() {
    let room = Room::new();
    let store = room.open();
    let last = (0..600).map(|number| once(&store, &format!("idle/{number}"), number)).max().unwrap();
    granted(ask(&store, "held", Claim { ttl: Span::from_millis(100 * 3_600_000), ..claim(1) }).unwrap());
    let remember = Some(Span::from_millis(100 * 3_600_000));
    granted(ask(&store, "remembered", claim(1)).unwrap());
    ask(&store, "remembered", Release { remember, ..release(1) }).unwrap();
    room.raw().execute("INSERT INTO leases VALUES ('damaged', 0, 0, x'01')", ()).unwrap();
    assert_eq!(rows(&room), 603);

    room.clock.pass(26 * 3600);
    for number in 0..1000 {
        once(&store, "busy", number);
    }
    assert_eq!(rows(&room), 4, "held, remembered, damaged, busy");
    assert!(matches!(ask(&store, "held", claim(2)).unwrap(), ClaimReply::Held(_)));
    assert_eq!(ask(&store, "remembered", claim(1)).unwrap(), ClaimReply::Gone);

    // Also by one that opened before the sweep, and one that opens after it.
    for number in [0, 7, 599] {
        assert!(once(&store, &format!("idle/{number}"), number) > last);
    }
    assert!(once(&room.open(), "idle/300", 1) > last);
}

#[test]
fn what_an_earlier_boot_left_is_swept_except_what_never_expires() {
    let mut room = Room::new();
    let store = room.open();
    granted(ask(&store, "for ever", Claim { ttl: Span::NEVER, ..claim(1) }).unwrap());
    let last = (0..50).map(|n| granted(ask(&store, &format!("n/{n}"), claim(n)).unwrap()).fence).max().unwrap();
    drop(store);
    room.reboot("boot 2");
    let store = room.open();
    for number in 0..200 {
        once(&store, "busy", number);
    }
    assert_eq!(rows(&room), 2, "for ever, busy");
    assert!(once(&store, "n/7", 1) > last);
}

#[test]
fn short_commands_sweep_too() {
    let room = Room::new();
    let store = room.open();
    for number in 0..300 {
        once(&store, &format!("idle/{number}"), number);
    }
    drop(store);
    room.clock.pass(26 * 3600);
    for command in 0..400 {
        once(&room.open(), "busy", command);
    }
    assert!(rows(&room) < 100, "{} rows", rows(&room));
}

#[test]
fn short_commands_keep_the_log_short() {
    let room = Room::new();
    for command in 0..600 {
        granted(ask(&room.open(), "a", claim(command)).unwrap());
        ask(&room.open(), "a", release(command)).unwrap();
    }
    let frames = fs::metadata(room.beside("-wal")).map_or(0, |log| log.len()) / (1024 + 24);
    assert!(frames < 400, "{frames} frames");
}

#[test]
fn the_log_starts_anew_under_a_process_that_never_pauses() {
    let room = Room::new();
    let store = room.open();
    let mut before = 0;
    for turn in 0..100_000 {
        once(&store, "a", turn);
        if frames(&store) < before {
            return;
        }
        before = frames(&store);
    }
    panic!("{before} frames");
}

#[test]
fn many_renewals_at_once_are_all_answered_in_order() {
    let room = Room::new();
    let store = room.open();
    let steps: Vec<(Name, Renew)> = (0..1500u128)
        .map(|number| {
            let text = format!("n/{number}");
            let fence = match number % 3 {
                0 => 1,
                _ => granted(ask(&store, &text, claim(number)).unwrap()).fence,
            };
            (name(&text), Renew { id: id(number), fence, tenure: None, not_after_ms: None })
        })
        .collect();
    let replies = pollster::block_on(store.renew_all(steps)).unwrap();
    assert_eq!(replies.len(), 1500);
    for (number, reply) in replies.iter().enumerate() {
        let held = matches!(reply, Ok(HoldReply::Held { .. }));
        assert_eq!(held, number % 3 != 0, "{number}: {reply:?}");
    }
}

#[test]
fn a_database_that_was_replaced_under_a_holder_is_noticed_at_its_renewal() {
    let room = Room::new();
    let store = room.open();
    let fence = granted(ask(&store, "a", claim(1)).unwrap()).fence;
    fs::rename(&room.path, room.path.with_file_name("moved.db")).unwrap();
    drop(room.try_open());
    let renew = Renew { id: id(1), fence, tenure: None, not_after_ms: None };
    let error = pollster::block_on(store.renew_all(vec![(name("a"), renew)])).unwrap_err();
    assert!(error.to_string().contains("replaced") && !error.is_transient(), "{error}");
}

#[test]
fn nobody_takes_a_lease_in_a_database_that_was_replaced() {
    let room = Room::new();
    let (store, waiter) = (room.open(), room.open());
    granted(ask(&store, "a", claim(1)).unwrap());
    assert!(matches!(ask(&waiter, "a", queueing(&waiter, 2)).unwrap(), ClaimReply::Queued(_)));
    let moved = room.path.with_file_name("moved.db");
    fs::rename(&room.path, &moved).unwrap();
    for (store, claim) in [(&store, claim(3)), (&waiter, queueing(&waiter, 2))] {
        let error = ask(store, "a", claim).unwrap_err();
        assert!(error.to_string().contains("replaced") && !error.is_transient(), "{error}");
    }
    fs::rename(&moved, &room.path).unwrap();
    assert_eq!(ask(&store, "a", release(1)).unwrap(), ReleaseReply::Released);
    granted(ask(&waiter, "a", queueing(&waiter, 2)).unwrap());
}

#[test]
fn a_list_is_read_off_the_callers_thread() {
    let room = Room::new();
    let store = room.open();
    granted(ask(&store, "a", claim(1)).unwrap());
    let (open, gate) = std::sync::mpsc::channel::<()>();
    store.0.later(Job::Read(Box::new(move |_| gate.recv().unwrap())));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(store.inspect(&name("a")).as_mut().poll(&mut context).is_ready());
    let mut list = store.list("");
    assert!(list.as_mut().poll(&mut context).is_pending());
    open.send(()).unwrap();
    assert_eq!(pollster::block_on(list).unwrap().len(), 1);
}
