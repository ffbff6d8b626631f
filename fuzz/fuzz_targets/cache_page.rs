//! Pages of a cache: records lie where the page says, and one that is whole is encoded to the same object.
#![no_main]

use cache::format::page::{PageView, PageWriter, ROOM_BYTES};
use cache::format::record::{self, RecordHead};
use cache::hash::FullKey;
use cache::request::{Marks, Namespace, Object, WallMillis};
use fuzz::seed;
use libfuzzer_sys::fuzz_target;

/// Records of a page, one after the other: bytes as they lie there, and then the page from its end.
fn seeds() {
    let object = |value: &[u8], flags, expires| Object {
        value: value.into(),
        flags,
        marks: Marks::default(),
        expires,
    };
    let objects =
        [object(b"value", 0, None), object(b"", 300, Some(WallMillis(1 << 33))), object(&[7; 5000], 1, None)];
    let mut page = fuzz::block(&[]);
    let (mut writer, mut at) = (PageWriter::new(&mut page), 0);
    for (number, object) in objects.iter().enumerate() {
        let key = FullKey::new(Namespace(2), &[b'k', u8::try_from(number).expect("few")]);
        let front = record::encode_front(&key, object);
        at += front.len() + writer.begin(at, &front, &object.value);
    }
    seed("cache_page", &[page.to_vec()]);
}

fuzz_target!(init: seeds(), |data: &[u8]| {
    // What the page says of itself stands at its end.
    let mut page = fuzz::block(&[]);
    let count = data.len().min(page.len());
    let at = page.len() - count;
    page[at..].copy_from_slice(&data[..count]);
    let Some(view) = PageView::parse(&page) else { return };
    assert!(view.lead().len() <= ROOM_BYTES);
    for bytes in view.records() {
        let Some(head) = RecordHead::parse(bytes) else { continue };
        let Some(key) = head.key(bytes) else { continue };
        let key = FullKey::new(head.namespace, key);
        if head.record_bytes() > bytes.len() {
            continue;
        }
        let (front, value) = head.split(bytes);
        let Some(object) = head.object(front, value.into()) else { continue };
        let anew = record::encode(&key, &object);
        let again = RecordHead::parse(&anew).expect("a record of ours");
        let (front, value) = again.split(&anew);
        assert_eq!(again.object(front, value.into()), Some(object));
        assert!(again.is_of(&anew, &key));
    }
});
