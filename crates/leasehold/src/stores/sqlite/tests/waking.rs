//! Who waits is woken, and who is gone is passed over.

use std::{os::unix::net::UnixDatagram, time::Duration};

use super::{processes::Peer, *};
use crate::engine::{Break, Leave, News, Renew};

fn on_runtime<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// The next hint, within ten seconds.
pub(super) fn hint(store: &dyn Store) -> Hint {
    let hint = on_runtime(async { tokio::time::timeout(Duration::from_secs(10), store.next_hint()).await });
    hint.expect("a hint within ten seconds").unwrap()
}

fn no_hint(store: &dyn Store) {
    let hint = on_runtime(async { tokio::time::timeout(Duration::from_millis(50), store.next_hint()).await });
    assert!(hint.is_err(), "{hint:?}");
}

fn queued(reply: &ClaimReply) -> bool {
    matches!(reply, ClaimReply::Queued(_))
}

#[track_caller]
fn is_offer(hint: &Hint, text: &str, bits: u128) {
    assert_eq!((&hint.name, hint.id), (&name(text), id(bits)));
    assert!(hint.news.offer().is_some(), "{hint:?}");
}

#[test]
fn a_waiter_is_told_when_it_is_its_turn() {
    let room = Room::new();
    let (holder, waiter) = (room.open(), room.open());
    granted(ask(&holder, "a", claim(1)).unwrap());
    assert!(queued(&ask(&waiter, "a", queueing(&waiter, 2)).unwrap()));
    no_hint(&waiter);
    ask(&holder, "a", release(1)).unwrap();
    is_offer(&hint(&waiter), "a", 2);
}

#[test]
fn one_that_listens_before_it_waits_is_told_too() {
    let room = Room::new();
    let (holder, waiter) = (room.open(), room.open());
    granted(ask(&holder, "a", claim(1)).unwrap());
    on_runtime(async {
        let listening = async { tokio::time::timeout(Duration::from_secs(10), waiter.next_hint()).await };
        let waiting = async {
            tokio::task::yield_now().await;
            let claim = queueing(&waiter, 2).into();
            waiter.apply(&name("a"), claim).await.unwrap();
            holder.apply(&name("a"), release(1).into()).await.unwrap();
        };
        let (hint, ()) = tokio::join!(listening, waiting);
        is_offer(&hint.unwrap().unwrap(), "a", 2);
    });
}

#[test]
fn a_hint_that_nobody_waited_for_yet_is_not_lost() {
    let room = Room::new();
    let (holder, waiter) = (room.open(), room.open());
    granted(ask(&holder, "a", claim(1)).unwrap());
    ask(&waiter, "a", queueing(&waiter, 2)).unwrap();
    on_runtime(async {
        for _ in 0..5 {
            let listening = tokio::time::timeout(Duration::from_millis(1), waiter.next_hint());
            assert!(listening.await.is_err());
        }
        holder.apply(&name("a"), release(1).into()).await.unwrap();
        let listening = tokio::time::timeout(Duration::from_secs(10), waiter.next_hint());
        is_offer(&listening.await.unwrap().unwrap(), "a", 2);
    });
}

#[test]
fn waiters_of_the_same_store_are_told_without_a_socket_in_between() {
    let room = Room::new();
    let store = room.open();
    for number in 0..50 {
        granted(ask(&store, &format!("n/{number}"), claim(number)).unwrap());
        assert!(queued(&ask(&store, &format!("n/{number}"), queueing(&store, 1000 + number)).unwrap()));
    }
    for number in 0..50 {
        ask(&store, &format!("n/{number}"), release(number)).unwrap();
    }
    for number in 0..50 {
        is_offer(&hint(&store), &format!("n/{number}"), 1000 + number);
    }
}

#[test]
fn a_burst_of_hints_for_another_store_is_not_lost() {
    const MANY: u128 = 100;
    let room = Room::new();
    let (holder, waiter) = (room.open(), room.open());
    for number in 0..MANY {
        granted(ask(&holder, &format!("n/{number}"), claim(number)).unwrap());
        assert!(queued(&ask(&waiter, &format!("n/{number}"), queueing(&waiter, 1000 + number)).unwrap()));
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..MANY {
                ask(&holder, &format!("n/{number}"), release(number)).unwrap();
            }
        });
        let mut told: Vec<Hint> = (0..MANY).map(|_| hint(&waiter)).collect();
        told.sort_by_key(|hint| hint.id);
        for (number, hint) in (0..MANY).zip(&told) {
            is_offer(hint, &format!("n/{number}"), 1000 + number);
        }
    });
}

#[test]
fn a_process_tells_another() {
    let room = Room::new();
    let mut holder = Peer::start(&room.path);
    let mut waiter = Peer::start(&room.path);
    assert!(holder.order("claim a 1").starts_with("Granted"));
    assert!(waiter.order("claim a 2").starts_with("Queued"));
    assert_eq!(holder.order("release a 1"), "Released");
    assert!(waiter.order("hint a 0").contains("Offer"));
    assert!(waiter.order("claim a 2").starts_with("Granted"));
}

#[test]
fn a_waiter_that_was_killed_is_passed_over_at_once() {
    let room = Room::new();
    let mut holder = Peer::start(&room.path);
    let (mut dead, mut dead_too) = (Peer::start(&room.path), Peer::start(&room.path));
    let mut waiter = Peer::start(&room.path);
    assert!(holder.order("claim a 1").starts_with("Granted"));
    for (peer, bits) in [(&mut dead, 2), (&mut dead_too, 3), (&mut waiter, 4)] {
        assert!(peer.order(&format!("claim a {bits}")).starts_with("Queued"));
    }
    assert!(dead.order("claim a 5").starts_with("Queued"));
    dead.kill();
    dead_too.kill();
    assert_eq!(holder.order("release a 1"), "Released");
    // No clock has to run out for this: the claim window of a dead one would show as another holder.
    let reply = waiter.order("claim a 4");
    assert!(reply.starts_with("Granted"), "{reply}");
}

#[test]
fn one_that_was_told_before_and_is_gone_now_is_passed_over_too() {
    let room = Room::new();
    let (holder, next) = (room.open(), room.open());
    let waiter = room.open();
    for (text, bits) in [("a", 10), ("b", 20)] {
        granted(ask(&holder, text, claim(bits)).unwrap());
        ask(&waiter, text, queueing(&waiter, bits + 1)).unwrap();
        ask(&next, text, queueing(&next, bits + 2)).unwrap();
    }
    ask(&holder, "a", release(10)).unwrap();
    is_offer(&hint(&waiter), "a", 11);
    drop(waiter);
    ask(&holder, "b", release(20)).unwrap();
    granted(ask(&next, "b", queueing(&next, 22)).unwrap());
}

#[test]
fn more_than_a_few_others_are_told() {
    let room = Room::new();
    let holder = room.open();
    let waiters: Vec<_> = (0..40).map(|_| room.open()).collect();
    for turn in 0..2 {
        for (number, waiter) in waiters.iter().enumerate() {
            let (text, bits) = (format!("n/{number}"), 1000 * (turn + 1) + number as u128);
            granted(ask(&holder, &text, claim(bits)).unwrap());
            ask(waiter, &text, queueing(waiter, 10 * bits)).unwrap();
            ask(&holder, &text, release(bits)).unwrap();
            is_offer(&hint(waiter), &text, 10 * bits);
            ask(waiter, &text, release(10 * bits)).unwrap();
        }
    }
}

#[test]
fn the_socket_is_made_for_waiters_only_and_goes_with_its_store() {
    let room = Room::new();
    let (holder, waiter) = (room.open(), room.open());
    let fence = granted(ask(&holder, "a", queueing(&holder, 1)).unwrap()).fence;
    assert!(room.sockets().is_empty());
    ask(&waiter, "a", queueing(&waiter, 2)).unwrap();
    assert_eq!(room.sockets(), [format!("{:016x}", waiter.client().unwrap().bits())]);
    ask(&waiter, "a", Leave { id: id(2), remember: None }).unwrap();
    drop(waiter);
    assert!(room.sockets().is_empty());

    // Whoever renews wants to be told when its lease is broken.
    let renew = Renew { id: id(1), fence, tenure: None, not_after_ms: None };
    pollster::block_on(holder.renew_all(vec![(name("a"), renew)])).unwrap();
    assert_eq!(room.sockets().len(), 1);
    ask(&room.open(), "a", Break { fence, now: false }).unwrap();
    assert_eq!(hint(&holder), Hint { name: name("a"), id: id(1), news: News::Broken });
}

#[test]
fn a_store_that_goes_with_waiters_left_leaves_a_sign_that_they_are_gone() {
    let room = Room::new();
    let (holder, waiter, next) = (room.open(), room.open(), room.open());
    granted(ask(&holder, "a", claim(1)).unwrap());
    ask(&waiter, "a", queueing(&waiter, 2)).unwrap();
    ask(&next, "a", queueing(&next, 3)).unwrap();
    drop(waiter);
    ask(&holder, "a", release(1)).unwrap();
    granted(ask(&next, "a", queueing(&next, 3)).unwrap());
}

#[test]
fn sockets_of_the_dead_are_removed() {
    let mut room = Room::new();
    let store = room.open();
    granted(ask(&store, "a", claim(1)).unwrap());
    fs::create_dir(room.beside("-wake")).unwrap();
    let socket = |number: u64| room.beside("-wake").join(format!("{number:016x}"));
    let dead = |number| drop(UnixDatagram::bind(socket(number)).unwrap());
    dead(1);
    dead(2);
    let alive = UnixDatagram::bind(socket(3)).unwrap();
    let age = |number| {
        let long_ago = rustix::time::Timespec { tv_sec: 1000, tv_nsec: 0 };
        let times = rustix::fs::Timestamps { last_access: long_ago, last_modification: long_ago };
        rustix::fs::utimensat(rustix::fs::CWD, socket(number), &times, rustix::fs::AtFlags::empty()).unwrap();
    };
    age(1);
    age(3);

    // One store in sixteen looks for them.
    let idle = room.open_as(16 * 7 + 1).unwrap();
    ask(&idle, "a", queueing(&idle, 2)).unwrap();
    assert_eq!(room.sockets().len(), 4);
    let caretaker = room.open_as(16 * 7).unwrap();
    ask(&caretaker, "a", queueing(&caretaker, 3)).unwrap();
    let mut left = room.sockets();
    left.sort();
    let expected = [2, 3, 16 * 7, 16 * 7 + 1].map(|number| format!("{number:016x}"));
    assert_eq!(left, expected, "2 is dead, but its waiters may still be in a queue");
    drop(alive);
    fs::write(room.beside("-wake").join("not a socket"), "").unwrap();

    room.reboot("boot 2");
    room.open();
    assert_eq!(room.sockets(), ["not a socket"], "nobody of an earlier boot is alive");
}

#[test]
fn nothing_is_removed_by_way_of_a_link() {
    let mut room = Room::new();
    drop(room.open());
    let elsewhere = room.path.with_file_name("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, room.beside("-wake")).unwrap();
    let socket = UnixDatagram::bind(elsewhere.join("socket")).unwrap();
    room.reboot("boot 2");
    let (holder, waiter) = (room.open(), room.open());
    assert!(elsewhere.join("socket").exists());
    granted(ask(&holder, "a", claim(1)).unwrap());
    ask(&waiter, "a", queueing(&waiter, 2)).unwrap();
    assert_eq!(waiter.client(), None, "no socket is made there either");
    drop(socket);
}

#[test]
fn datagrams_that_are_not_ours_are_ignored() {
    let room = Room::new();
    let (holder, waiter) = (room.open(), room.open());
    granted(ask(&holder, "a", claim(1)).unwrap());
    ask(&waiter, "a", queueing(&waiter, 2)).unwrap();
    let address = room.beside("-wake").join(&room.sockets()[0]);
    let stranger = UnixDatagram::unbound().unwrap();
    for garbage in [&b""[..], b"hello", &[1], &[1, 0xFF, 0xFF, 0xFF], &[0; 4000], &[1; 600]] {
        stranger.send_to(garbage, &address).unwrap();
    }
    no_hint(&waiter);
    ask(&holder, "a", release(1)).unwrap();
    is_offer(&hint(&waiter), "a", 2);
}

#[test]
fn where_no_socket_can_be_made_waiters_have_no_address() {
    let room = Room::new();
    let (holder, waiter) = (room.open(), room.open());
    fs::write(room.beside("-wake"), "in the way").unwrap();
    granted(ask(&holder, "a", claim(1)).unwrap());
    assert!(waiter.client().is_some());
    assert!(queued(&ask(&waiter, "a", queueing(&waiter, 2)).unwrap()));
    assert_eq!(waiter.client(), None, "the client sees that it has to ask by itself");
    let record = waiter.0.core.database().row(&name("a")).unwrap().unwrap().unwrap().record;
    assert_eq!(record.queue[0].client, None, "nobody takes it for dead");
    ask(&holder, "a", release(1)).unwrap();
    let grant = granted(ask(&waiter, "a", queueing(&waiter, 2)).unwrap());
    assert!(grant.offered);
}

#[test]
fn waiters_are_told_though_whoever_woke_them_never_looks_at_the_answer() {
    let room = Room::new();
    let (holder, waiter) = (room.open(), room.open());
    let gone = room.open();
    granted(ask(&holder, "a", claim(1)).unwrap());
    for (store, bits) in [(&gone, 2), (&waiter, 3)] {
        assert!(queued(&ask(store, "a", queueing(store, bits)).unwrap()));
    }
    drop(gone);
    let lock = name("a");
    let mut releasing = holder.apply_patiently(&lock, release(1).into());
    let _ = releasing.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
    drop(releasing);
    // First that it is the next but for one who turns out to be gone.
    let offer = std::iter::repeat_with(|| hint(&waiter)).find(|hint| hint.news.offer().is_some());
    is_offer(&offer.unwrap(), "a", 3);
}
