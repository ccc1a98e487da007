//! Where a database can be, and what happens where it cannot.

use std::{
    os::unix::fs::{PermissionsExt, symlink},
    process::Command as Process,
};

use super::{processes::again, *};
use crate::error::ErrorKind;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Of whatever path; on the real machine.
fn open_path(path: &str) -> Result<Arc<dyn Store>, Error> {
    super::super::open(path, SystemClock::shared(), &Fixed(7))
}

fn refusal(path: &str) -> Error {
    open_path(path).expect_err(path)
}

#[test]
fn a_new_database_is_for_its_owner_alone() {
    let mut room = Room::new();
    room.path = room.path.with_file_name("missing/too/leases.db");
    let store = room.open();
    let holder = ask(&store, "a", queueing(&store, 1)).unwrap();
    granted(holder);
    ask(&store, "a", queueing(&store, 2)).unwrap();

    assert_eq!(mode(&room.directory.path().join("missing")), 0o700);
    assert_eq!(mode(room.path.parent().unwrap()), 0o700);
    for suffix in ["", "-wal", "-shm", "-turn"] {
        assert_eq!(mode(&room.beside(suffix)), 0o600, "{suffix}");
    }
    assert_eq!(mode(&room.beside("-wake")), 0o700);
    let [socket] = &room.sockets()[..] else { panic!("one socket") };
    assert_eq!(mode(&room.beside("-wake").join(socket)), 0o600);
}

#[test]
fn what_is_beside_a_database_that_a_group_shares_is_shared_too() {
    let room = Room::new();
    drop(room.open());
    fs::remove_file(room.beside("-turn")).unwrap();
    fs::set_permissions(&room.path, fs::Permissions::from_mode(0o660)).unwrap();
    let store = room.open();
    granted(ask(&store, "a", claim(1)).unwrap());
    ask(&store, "a", queueing(&store, 2)).unwrap();

    assert_eq!(mode(&room.beside("-turn")), 0o660);
    assert_eq!(mode(&room.beside("-wake")), 0o770);
    let [socket] = &room.sockets()[..] else { panic!("one socket") };
    assert_eq!(mode(&room.beside("-wake").join(socket)), 0o660);
}

#[test]
fn the_file_says_whose_it_is() {
    let room = Room::new();
    drop(room.open());
    let raw = room.raw();
    let number = |pragma| raw.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0)).unwrap();
    assert_eq!(number("application_id").to_be_bytes(), *b"LSHD");
    assert_eq!(number("user_version"), 1);
    let journal: String = raw.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
    assert_eq!(journal, "wal");
}

#[test]
fn a_path_that_names_no_file_is_refused_with_a_hint() {
    let directory = tempfile::tempdir().unwrap();
    let inside = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    fs::write(inside("plain"), "").unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, inside("fifo"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    symlink("nowhere", inside("dangling")).unwrap();
    symlink("loop", inside("loop")).unwrap();

    for (path, hint) in [
        (String::new(), "sqlite:/path/leases.db"),
        (":memory:".into(), "memory:"),
        ("//host/leases.db".into(), "sqlite:/host/leases.db"),
        ("~/leases.db".into(), "$HOME/leases.db"),
        ("a\0b".into(), "sqlite:/path/leases.db"),
        (inside(""), "leases.db"),
        (directory.path().to_str().unwrap().to_owned(), "leases.db"),
        (inside("fifo"), "sqlite:/path/leases.db"),
        (inside("dangling"), "sqlite:/path/leases.db"),
        (inside("loop"), "sqlite:/path/leases.db"),
        (inside("plain/leases.db"), "sqlite:/path/leases.db"),
        (inside(&"x".repeat(300)), "sqlite:/path/leases.db"),
    ] {
        let error = refusal(&path);
        assert_eq!(error.kind(), ErrorKind::Invalid, "{path}: {error}");
        assert!(error.hint().contains(hint), "{path}: {error}: {}", error.hint());
    }
    assert!(!directory.path().join("nowhere").exists());
}

#[test]
fn a_relative_path_and_a_link_lead_to_the_same_store() {
    let room = Room::new();
    let store = room.open();
    let link = room.path.with_file_name("link.db");
    symlink(&room.path, &link).unwrap();
    let mut linked = Room { path: link, ..Room::new() };
    let other = linked.open();
    assert_eq!(store.fingerprint(), format!("sqlite:{}", room.path.display()));
    assert_eq!(other.fingerprint(), store.fingerprint());
    granted(ask(&store, "a", claim(1)).unwrap());
    assert!(matches!(ask(&other, "a", claim(2)).unwrap(), ClaimReply::Held(_)));

    // Up to the root and down again.
    let here = std::env::current_dir().unwrap();
    let up = "../".repeat(here.components().count() - 1);
    linked.path = PathBuf::from(format!("{up}{}", room.path.display().to_string().trim_start_matches('/')));
    assert!(linked.path.is_relative());
    assert_eq!(linked.open().fingerprint(), store.fingerprint());
}

#[test]
fn a_copy_that_lost_its_log_gets_one() {
    let room = Room::new();
    once(&room.open(), "a", 1);
    room.raw().execute_batch("PRAGMA journal_mode = DELETE").unwrap();
    once(&room.open(), "a", 1);
    let journal: String = room.raw().pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
    assert_eq!(journal, "wal");
}

#[test]
fn an_empty_file_becomes_a_database() {
    let room = Room::new();
    fs::write(&room.path, "").unwrap();
    once(&room.open(), "a", 1);
}

#[test]
fn a_later_schema_asks_for_an_upgrade_and_is_left_alone() {
    let room = Room::new();
    drop(room.open());
    room.raw().pragma_update(None, "user_version", 2).unwrap();
    let error = room.try_open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.hint().contains("upgrade"), "{}", error.hint());
    room.raw().pragma_update(None, "user_version", 1).unwrap();
    room.open();
}

#[test]
fn the_database_of_another_program_is_left_alone() {
    let room = Room::new();
    let raw = room.raw();
    raw.execute_batch("CREATE TABLE theirs(a); INSERT INTO theirs VALUES (1)").unwrap();
    drop(raw);
    let before = fs::read(&room.path).unwrap();
    let error = room.try_open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert_eq!(fs::read(&room.path).unwrap(), before);

    room.raw().execute_batch("DROP TABLE theirs; PRAGMA application_id = 7").unwrap();
    let error = room.try_open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}

#[test]
fn what_is_not_a_database_is_left_alone() {
    for content in ["hello", &"no database at all\n".repeat(1000)] {
        let room = Room::new();
        fs::write(&room.path, content).unwrap();
        let error = room.try_open().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(!error.hint().is_empty());
        assert_eq!(fs::read_to_string(&room.path).unwrap(), content);
    }
}

#[test]
fn a_database_without_our_tables_is_damaged() {
    let room = Room::new();
    drop(room.open());
    room.raw().execute_batch("DROP TABLE meta").unwrap();
    let error = room.try_open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}

#[test]
fn a_damaged_page_is_an_error_and_not_a_panic() {
    let room = Room::new();
    let store = room.open();
    for number in 0..40 {
        once(&store, &format!("name {number}"), number);
    }
    drop(store);
    room.raw().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let mut bytes = fs::read(&room.path).unwrap();
    bytes[1024..].fill(0x5A);
    fs::write(&room.path, &bytes).unwrap();
    let error = match room.try_open() {
        Err(error) => error,
        Ok(store) => ask(&store, "name 1", claim(1)).unwrap_err(),
    };
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}

#[test]
fn a_file_with_two_names_is_refused() {
    let room = Room::new();
    drop(room.open());
    fs::hard_link(&room.path, room.path.with_file_name("other.db")).unwrap();
    let error = room.try_open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.hint().contains("hard links"), "{}", error.hint());
}

#[test]
fn a_path_longer_than_a_socket_address_works() {
    let mut room = Room::new();
    let deep: PathBuf = std::iter::repeat_n("a-directory-with-a-name-of-some-length", 8).collect();
    room.path = room.directory.path().canonicalize().unwrap().join(deep).join("leases.db");
    assert!(room.path.as_os_str().len() > 300);
    let (holder, waiter) = (room.open(), room.open());
    granted(ask(&holder, "a", claim(1)).unwrap());
    ask(&waiter, "a", queueing(&waiter, 2)).unwrap();
    ask(&holder, "a", release(1)).unwrap();
    assert_eq!(super::waking::hint(&waiter).id, id(2));
}

#[test]
fn a_file_system_that_is_not_known_to_be_local_is_refused_by_name() {
    let error = refusal("/proc/leases.db");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(!error.is_transient() && error.to_string().contains("(proc)"), "{error}");
    assert!(error.hint().contains("local disk"), "{}", error.hint());
}

/// Runs `task` of this file in another process, with `wrapper` around it.
fn within(wrapper: &[&str], task: &str, path: &Path) {
    let mut command = again(task, path);
    let mut process = Process::new(wrapper[0]);
    process.args(&wrapper[1..]).arg(command.get_program()).args(command.get_args());
    for (key, value) in command.get_envs() {
        process.env(key, value.unwrap());
    }
    command = process;
    let output = command.output().unwrap();
    let text = format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("@done"), "{text}");
}

/// The permissions of files count, though the tests may run as root.
fn without_privileges(task: &str, path: &Path) {
    if rustix::process::geteuid().is_root() {
        within(&["setpriv", "--bounding-set=-all", "--inh-caps=-all"], task, path);
    } else {
        within(&["env"], task, path);
    }
}

/// `prepare` mounts something, which nobody else sees.
fn with_mounts(prepare: &str, task: &str, path: &Path) {
    let script = format!("{prepare} && exec \"$@\"");
    within(&["unshare", "--map-root-user", "--mount", "sh", "-ec", &script, "sh"], task, path);
}

pub(super) fn expect_refused(path: &Path) {
    let error = refusal(path.to_str().unwrap());
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(!error.is_transient(), "{error}");
    assert!(error.hint().contains("writable"), "{error}: {}", error.hint());
}

#[test]
fn a_read_only_file_directory_or_disk_is_refused_at_once() {
    let room = Room::new();
    once(&room.open(), "a", 1);
    let directory = room.directory.path();
    let permit = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();

    permit(&room.path, 0o400);
    without_privileges("expect refused", &room.path);
    permit(&room.path, 0o000);
    without_privileges("expect refused", &room.path);
    permit(&room.path, 0o600);

    permit(directory, 0o500);
    without_privileges("expect refused", &directory.join("new.db"));
    without_privileges("expect refused", &directory.join("new/new.db"));
    fs::remove_file(room.beside("-turn")).unwrap_or_default();
    permit(directory, 0o700);

    let shown = directory.display();
    let read_only = format!("mount --bind {shown} {shown} && mount -o remount,bind,ro {shown}");
    with_mounts(&read_only, "expect refused", &room.path);
    with_mounts(&read_only, "expect refused", &directory.join("new.db"));
}

pub(super) fn fill_the_disk(path: &Path) {
    let store = open_path(path.to_str().unwrap()).unwrap();
    let fence = once(&*store, "before", 1);
    let filler = path.with_file_name("filler");
    let full = fs::write(&filler, vec![0; 8 << 20]).unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    let mut count = 1;
    let error = loop {
        count += 1;
        match ask(&*store, &format!("name {count}"), claim(count)) {
            Ok(_) => assert!(count < 10_000, "the disk never gets full"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(!error.is_transient(), "{error}");
    assert!(error.hint().contains("free some space"), "{error}: {}", error.hint());

    let other = open_path(path.with_file_name("other.db").to_str().unwrap());
    assert_eq!(other.expect_err("there is no room for another").kind(), ErrorKind::Unavailable);

    fs::remove_file(&filler).unwrap();
    assert!(once(&*store, "before", 1) > fence);
    granted(ask(&*store, &format!("name {count}"), claim(count)).unwrap());
}

#[test]
fn a_full_disk_is_refused_and_nothing_is_lost() {
    let room = Room::new();
    let shown = room.directory.path().display();
    with_mounts(&format!("mount -t tmpfs -o size=400k tmpfs {shown}"), "fill the disk", &room.path);
}

pub(super) fn expect_one_name_only(path: &Path) {
    let error = refusal(path.to_str().unwrap());
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.hint().contains("mount the directory"), "{}", error.hint());
}

#[test]
fn a_database_that_is_mounted_as_a_single_file_is_refused() {
    let room = Room::new();
    drop(room.open());
    let target = room.path.with_file_name("inside.db");
    fs::write(&target, "").unwrap();
    let mount = format!("mount --bind {} {}", room.path.display(), target.display());
    with_mounts(&mount, "expect one name only", &target);
}

#[test]
fn a_stopped_process_at_the_turnstile_does_not_hold_up_the_first_open_for_ever() {
    let mut room = Room::new();
    drop(room.open());
    let turn = fs::File::open(room.beside("-turn")).unwrap();
    turn.lock().unwrap();
    once_opened(&room, |opened| drop(opened.expect("this boot is known: nobody has to wait")));
    room.reboot("boot 2");
    once_opened(&room, |opened| {
        let error = opened.expect_err("a new boot is entered by one at a time");
        assert!(error.kind() == ErrorKind::Unavailable && error.is_transient(), "{error}");
        assert!(error.to_string().contains("-turn"), "{error}");
    });
    turn.unlock().unwrap();
    once(&room.open(), "a", 1);
}

/// Opens the store, which has half a minute for it.
fn once_opened(room: &Room, check: impl FnOnce(Result<RegisterStore<Sqlite>, Error>)) {
    let (path, host, clock) = (room.path.to_str().unwrap().to_owned(), room.host.clone(), room.clock.clone());
    let (done, opened) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(Sqlite::open(&path, &host, clock, &Fixed(77)).map(RegisterStore::new)));
    check(opened.recv_timeout(std::time::Duration::from_secs(30)).expect("opening has an end"));
}

pub(super) fn run_out_of_files(path: &Path) {
    let path = path.to_str().unwrap();
    let limit = rustix::process::Rlimit { current: Some(64), maximum: Some(64) };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    let mut taken = Vec::new();
    while let Ok(file) = fs::File::open("/dev/null") {
        taken.push(file);
    }
    let mut refusals = 0;
    while let Err(error) = open_path(path).map(|store| once(&*store, "a", 1)) {
        refusals += 1;
        assert!(error.kind() == ErrorKind::Unavailable && error.is_transient(), "{refusals}: {error}");
        assert!(error.hint().contains("ulimit -n"), "{refusals}: {error}: {}", error.hint());
        taken.pop().expect("with fewer files open it works");
    }
    assert!(refusals >= 4, "{refusals}");
}

#[test]
fn too_many_open_files_are_told_from_a_file_that_cannot_be_written() {
    let room = Room::new();
    within(&["env"], "run out of files", &room.path);
    within(&["env"], "run out of files", &room.path);
}
