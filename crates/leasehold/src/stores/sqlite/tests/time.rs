//! Boots, clocks and power cuts.

use super::*;
use crate::{
    engine::{Break, BreakReply, Check, HoldReply, Renew},
    error::{ErrorKind, Loss},
};

fn forever(bits: u128) -> Claim {
    Claim { ttl: Span::NEVER, ..claim(bits) }
}

#[test]
fn after_a_restart_of_the_machine_every_holder_is_dead() {
    let mut room = Room::new();
    let fence = granted(ask(&room.open(), "a", claim(1)).unwrap()).fence;
    room.reboot("boot 2");
    let store = room.open();
    let check = Check { id: id(1), fence };
    assert_eq!(ask(&store, "a", check).unwrap(), HoldReply::Lost(Loss::Expired));
    assert!(pollster::block_on(store.inspect(&name("a"))).unwrap().holders.is_empty());
    assert!(pollster::block_on(store.list("")).unwrap().is_empty());
    assert!(granted(ask(&store, "a", claim(2)).unwrap()).fence > fence);
}

#[test]
fn a_lease_that_never_expires_outlasts_the_machine() {
    let mut room = Room::new();
    let fence = granted(ask(&room.open(), "a", forever(1)).unwrap()).fence;
    for boot in ["boot 2", "boot 3"] {
        room.reboot(boot);
        let store = room.open();
        assert_eq!(ask(&store, "a", Check { id: id(1), fence }).unwrap(), HoldReply::Held { left: None });
        let ClaimReply::Held(holder) = ask(&store, "a", claim(2)).unwrap() else { panic!("it is held") };
        assert_eq!(holder.fence, Some(fence));
        let renew = Renew { id: id(1), fence, tenure: None, not_after_ms: None };
        assert_eq!(ask(&store, "a", renew).unwrap(), HoldReply::Held { left: None });
    }
    let store = room.open();
    let broken = ask(&store, "a", Break { fence, now: true }).unwrap();
    assert!(matches!(broken, BreakReply::Broken { .. }), "{broken:?}");
    assert!(granted(ask(&store, "a", claim(3)).unwrap()).fence > fence);
}

/// What is on the disk for certain is what was there at the last durable commit.
#[test]
fn fences_grow_though_a_power_cut_undoes_the_last_commits() {
    let mut room = Room::new();
    let disk = room.path.with_file_name("disk");
    let mut last = 0;
    for boot in ["boot 2", "boot 3", "boot 4"] {
        room.reboot(boot);
        let store = room.open();
        copy(&room.path, &disk);
        for turn in 0..20 {
            let fence = once(&store, "a", turn);
            assert!(fence > last, "{fence} after {last}");
            last = fence;
            // A name that is new to the disk, too.
            once(&store, boot, turn);
        }
        drop(store);
        fs::remove_file(room.beside("-shm")).unwrap();
        copy(&disk, &room.path);
    }
    room.reboot("boot 5");
    let store = room.open();
    assert!(once(&store, "a", 1) > last);
    assert!(once(&store, "boot 4", 1) > last);
}

#[test]
fn a_lease_that_never_expires_is_on_the_disk_before_it_is_granted() {
    let mut room = Room::new();
    let store = room.open();
    let durable = || store.0.core.database().durable_commits.get();
    let before = durable();
    once(&store, "a", 1);
    assert_eq!(durable(), before, "an ordinary lease need not outlast a power cut");

    let fence = granted(ask(&store, "a", forever(2)).unwrap()).fence;
    assert_eq!(durable(), before + 1, "granted");
    let renew = Renew { id: id(2), fence, tenure: None, not_after_ms: None };
    ask(&store, "a", renew).unwrap();
    assert_eq!(durable(), before + 1, "a renewal changes nothing that lasts");

    // The next is offered it for a moment only, and has it for ever by its first renewal.
    ask(&store, "a", Claim { ttl: Span::NEVER, ..queueing(&store, 3) }).unwrap();
    ask(&store, "a", release(2)).unwrap();
    assert_eq!(durable(), before + 3, "queued, and released");
    let told = Some(fence + 1);
    let grant = granted(ask(&store, "a", Claim { ttl: Span::NEVER, told, ..queueing(&store, 3) }).unwrap());
    assert!(grant.offered);
    let renew = Renew { id: id(3), fence: grant.fence, tenure: None, not_after_ms: None };
    assert_eq!(ask(&store, "a", renew).unwrap(), HoldReply::Held { left: None });
    assert_eq!(durable(), before + 4, "confirmed");

    drop(store);
    room.reboot("boot 2");
    let check = Check { id: id(3), fence: grant.fence };
    assert_eq!(ask(&room.open(), "a", check).unwrap(), HoldReply::Held { left: None });
}

#[test]
fn fences_grow_though_the_database_was_thrown_away() {
    let room = Room::new();
    let store = room.open();
    let fence = once(&store, "a", 1);
    drop(store);
    for suffix in ["", "-wal", "-shm", "-turn"] {
        fs::remove_file(room.beside(suffix)).unwrap();
    }
    room.clock.pass(1);
    assert!(once(&room.open(), "a", 1) > fence);
}

#[test]
fn another_time_namespace_is_refused() {
    let mut room = Room::new();
    let store = room.open();
    room.host.time_namespace = "time:[2]".into();
    let error = room.try_open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(!error.is_transient() && error.to_string().contains("time namespace"), "{error}");
    once(&store, "a", 1);
    // Whoever is first after the next boot decides.
    room.reboot("boot 2");
    once(&room.open(), "a", 1);
}

#[test]
fn a_time_of_day_that_is_set_back_does_no_harm() {
    let room = Room::new();
    let store = room.open();
    let first = granted(ask(&store, "a", claim(1)).unwrap()).fence;
    room.clock.wall_ms.store(1000, Ordering::SeqCst);
    assert!(matches!(ask(&store, "a", claim(2)).unwrap(), ClaimReply::Held(_)));
    let other = room.open();
    assert!(matches!(ask(&other, "a", claim(2)).unwrap(), ClaimReply::Held(_)));
    room.clock.nanos.fetch_add(31_000_000_000, Ordering::SeqCst);
    assert!(granted(ask(&other, "a", claim(2)).unwrap()).fence > first);
    // A name of which nothing is known, too.
    assert!(once(&other, "b", 3) > 0);
}

#[test]
fn a_database_is_made_while_the_time_of_day_is_wrong() {
    for wall_ms in [0, u64::MAX] {
        let mut room = Room::new();
        room.clock.wall_ms.store(wall_ms, Ordering::SeqCst);
        let fence = once(&room.open(), "a", 1);
        room.reboot("boot 2");
        assert!(once(&room.open(), "a", 1) > fence);
    }
}

#[test]
fn a_process_that_another_machine_has_overtaken_is_refused() {
    let mut room = Room::new();
    let old = room.open();
    let fence = granted(ask(&old, "a", claim(1)).unwrap()).fence;
    room.reboot("boot of another machine");
    let new = room.open();
    granted(ask(&new, "a", claim(2)).unwrap());

    // By its record, and by the count of boots where there is none.
    for text in ["a", "never taken"] {
        let error = ask(&old, text, claim(1)).unwrap_err();
        assert!(error.kind() == ErrorKind::Unavailable && !error.is_transient(), "{error}");
    }
    let renew = Renew { id: id(1), fence, tenure: None, not_after_ms: None };
    let error = pollster::block_on(old.renew_all(vec![(name("b"), renew)])).unwrap_err();
    assert!(!error.is_transient(), "{error}");
}
