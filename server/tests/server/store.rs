//! The store by itself: how much it takes, how much it gives at once, and what it leaves on the disk.

use quillmate_sampler::{GeneratorState, Settings};
use quillmate_server::model::tiny::Tiny;
use quillmate_server::model::{LanguageModel as _, TokenTable};
use quillmate_server::store::{Admission, BatchSize, Room, Status, Store, StoreError};
use tempfile::tempdir;

use crate::disk::Disk;
use crate::support::nobody;

fn create(store: &Store, needed: u64, room: Room) -> Admission {
    let start = GeneratorState {
        seed: 1,
        prompt: vec![98],
        tokens: Vec::new(),
        settings: Settings::default(),
        processors: Default::default(),
    };
    store.create(&start, 100, Tiny::new().unwrap().identity(), None, needed, room).unwrap()
}

/// A run that is over, with frames of so many bytes.
fn written(store: &Store, frames: &[usize]) -> String {
    let Admission::Admitted(id) = create(store, 1000, Room { runs: 9, frame_bytes: 1 << 20 }) else {
        panic!("no room")
    };
    for (step, bytes) in (0..).zip(frames) {
        store.append(&id, step, &[(98, vec![7; *bytes])], None, &nobody()).unwrap();
    }
    store.set_status(&id, Status::Stopped, Some("stopped")).unwrap();
    id
}

#[test]
fn the_room_for_frames_is_taken_to_its_last_byte() {
    let room = Room { runs: 9, frame_bytes: 1000 };
    for (taken, admitted) in [(999, true), (1000, true), (1001, false)] {
        let data = tempdir().unwrap();
        let store = Store::open(data.path()).unwrap();
        assert_eq!(matches!(create(&store, taken, room), Admission::Admitted(_)), admitted, "{taken}");
        let used = if admitted { taken } else { 0 };
        let full = (used == 1000).then_some(Admission::StoreFull { used });
        assert_eq!(store.full(room).unwrap(), full, "{taken}");
    }
}

#[test]
fn a_part_of_the_frames_ends_where_it_is_said() {
    let data = tempdir().unwrap();
    let store = Store::open(data.path()).unwrap();
    let id = written(&store, &[10, 20, 30, 40, 50]);
    let tail = |from, frames, bytes| {
        let tail = store.tail(&id, from, BatchSize { frames, bytes }).unwrap().unwrap();
        (tail.frames.iter().map(Vec::len).collect::<Vec<_>>(), tail.all)
    };
    // By number, by bytes (the frame that reaches them is still given), and all.
    assert_eq!(tail(0, 2, 1 << 20), (vec![10, 20], false));
    assert_eq!(tail(0, 9, 30), (vec![10, 20], false));
    assert_eq!(tail(0, 9, 31), (vec![10, 20, 30], false));
    assert_eq!(tail(3, 9, 1 << 20), (vec![40, 50], true));
    assert_eq!(tail(5, 9, 1 << 20), (vec![], true));
    assert_eq!(store.frames(&id, 1, 2).unwrap().unwrap().concat().len(), 20 + 30);
}

#[test]
fn a_store_that_was_closed_leaves_nothing_in_its_log() {
    let data = tempdir().unwrap();
    let store = Store::open(data.path()).unwrap();
    written(&store, &[600; 20]);
    let log = || std::fs::metadata(data.path().join("runs.sqlite-wal")).map_or(0, |file| file.len());
    assert!(log() > 20 * 600);
    store.close().unwrap();
    assert_eq!(log(), 0);
}

#[test]
fn a_tokenizer_that_is_not_the_one_it_is_stored_as_is_damaged() {
    let data = tempdir().unwrap();
    let store = Store::open(data.path()).unwrap();
    let table: &TokenTable = &Tiny::new().unwrap().tokens().clone();
    store.keep_tokenizer(table).unwrap();
    assert_eq!(store.tokenizer(&table.sha256()).unwrap().unwrap().sha256(), table.sha256());
    let other = "0".repeat(64);
    assert!(store.tokenizer(&other).unwrap().is_none());
    let tables = rusqlite::Connection::open(data.path().join("runs.sqlite")).unwrap();
    tables.execute("UPDATE tokenizers SET sha256 = ?1", [&other]).unwrap();
    assert!(matches!(store.tokenizer(&other), Err(StoreError::Damaged(_))));
}

#[test]
fn a_reserve_is_kept_where_one_of_use_fits_beside_the_log() {
    // 8 MB are for the log; a reserve of less than 4 is of no use, and none is larger than 16.
    for (disk, reserve) in [(11, None), (14, Some(4..6)), (40, Some(16..17))] {
        let Some(disk) = Disk::new(disk) else { return };
        drop(Store::open(&disk.data()).unwrap());
        let kept = std::fs::metadata(disk.data().join("reserve")).ok().map(|file| file.len() >> 20);
        assert_eq!(kept.is_some(), reserve.is_some(), "{kept:?}");
        assert!(reserve.is_none_or(|reserve| reserve.contains(&kept.unwrap())), "{kept:?}");
    }
}

#[test]
fn a_store_opens_on_a_full_disk_by_giving_up_its_reserve() {
    let Some(disk) = Disk::new(40) else { return };
    let store = Store::open(&disk.data()).unwrap();
    let id = written(&store, &[600; 5]);
    store.close().unwrap();
    drop(store);
    assert!(disk.data().join("reserve").exists());
    disk.fill();
    let store = Store::open(&disk.data()).unwrap();
    assert_eq!(store.frames(&id, 0, 9).unwrap().unwrap().len(), 5);
}

#[cfg(unix)]
#[test]
fn a_file_that_is_more_private_than_it_must_be_stays_so() {
    use std::os::unix::fs::PermissionsExt as _;
    let data = tempdir().unwrap();
    let reserve = data.path().join("reserve");
    std::fs::write(&reserve, "").unwrap();
    let mode = || std::fs::metadata(&reserve).unwrap().permissions().mode() & 0o777;
    for (before, after) in [(0o400, 0o400), (0o644, 0o600)] {
        std::fs::set_permissions(&reserve, std::fs::Permissions::from_mode(before)).unwrap();
        drop(Store::open(data.path()).unwrap());
        assert_eq!(mode(), after, "{before:o}");
    }
}
