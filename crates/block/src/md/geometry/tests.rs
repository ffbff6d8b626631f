//! Every layout by the rows of md's documentation, and by what must hold for all of them.

use super::*;

fn shape(level: i32, layout: u32, members: u32) -> Shape {
    Shape { level, layout, size: 8 * 97, chunk: 8, members }
}

fn all() -> Vec<(Shape, Geometry)> {
    let layouts = |level: i32| {
        (0..32).filter(move |layout| level == 4 && *layout == 0 || names::layout(level, *layout).is_some())
    };
    let shapes = [4, 5, 6].into_iter().flat_map(|level| layouts(level).map(move |layout| (level, layout)));
    let shapes =
        shapes.flat_map(|(level, layout)| (2..=32).map(move |members| shape(level, layout, members)));
    shapes.filter_map(|shape| Geometry::of(&shape).map(|geometry| (shape, geometry))).collect()
}

/// Rows as text: data chunks by number, `P` and `Q`.
fn rows(level: i32, layout: u32, members: u32, count: u64) -> Vec<String> {
    let geometry = Geometry::of(&shape(level, layout, members)).unwrap();
    let place = |stripe, member| match geometry.place(Stripe(stripe), Role(member)) {
        Place::Data(Chunk(chunk)) => chunk.to_string(),
        Place::P => "P".to_owned(),
        Place::Q => "Q".to_owned(),
    };
    let row =
        |stripe| (0..geometry.members()).map(|member| place(stripe, member)).collect::<Vec<_>>().join(" ");
    (0..count).map(row).collect()
}

#[test]
fn rows_of_raid5_are_md_s() {
    assert_eq!(rows(5, 0, 4, 4), ["0 1 2 P", "3 4 P 5", "6 P 7 8", "P 9 10 11"]);
    assert_eq!(rows(5, 1, 4, 4), ["P 0 1 2", "3 P 4 5", "6 7 P 8", "9 10 11 P"]);
    assert_eq!(rows(5, 2, 4, 4), ["0 1 2 P", "4 5 P 3", "8 P 6 7", "P 9 10 11"]);
    assert_eq!(rows(5, 3, 4, 4), ["P 0 1 2", "5 P 3 4", "7 8 P 6", "9 10 11 P"]);
    assert_eq!(rows(5, 4, 4, 2), ["P 0 1 2", "P 3 4 5"]);
    assert_eq!(rows(5, 5, 4, 2), ["0 1 2 P", "3 4 5 P"]);
    assert_eq!(rows(4, 0, 4, 2), rows(5, 5, 4, 2));
    assert_eq!(rows(5, 2, 2, 2), ["0 P", "P 1"]);
}

#[test]
fn rows_of_raid6_are_md_s() {
    assert_eq!(rows(6, 0, 5, 3), ["Q 0 1 2 P", "3 4 5 P Q", "6 7 P Q 8"]);
    assert_eq!(rows(6, 1, 5, 5)[3..], ["9 10 11 P Q", "Q 12 13 14 P"]);
    assert_eq!(rows(6, 2, 5, 3), ["Q 0 1 2 P", "3 4 5 P Q", "7 8 P Q 6"]);
    assert_eq!(rows(6, 3, 5, 2), ["P Q 0 1 2", "5 P Q 3 4"]);
    assert_eq!(rows(6, 4, 5, 2), ["P Q 0 1 2", "P Q 3 4 5"]);
    assert_eq!(rows(6, 5, 5, 2), ["0 1 2 P Q", "3 4 5 P Q"]);
    assert_eq!(rows(6, 8, 5, 5), rows(6, 1, 5, 5));
    assert_eq!(rows(6, 9, 5, 2), ["0 1 2 P Q", "3 4 P Q 5"]);
    assert_eq!(rows(6, 10, 5, 2), ["0 1 2 Q P", "4 5 Q P 3"]);
    assert_eq!(rows(6, 16, 5, 2), ["0 1 2 P Q", "3 4 P 5 Q"]);
    assert_eq!(rows(6, 17, 5, 2), ["P 0 1 2 Q", "3 P 4 5 Q"]);
    assert_eq!(rows(6, 18, 5, 2), ["0 1 2 P Q", "4 5 P 3 Q"]);
    assert_eq!(rows(6, 19, 5, 2), ["P 0 1 2 Q", "5 P 3 4 Q"]);
    assert_eq!(rows(6, 20, 5, 2), ["P 0 1 2 Q", "P 3 4 5 Q"]);
}

#[test]
fn exponents_count_from_behind_q_or_by_member() {
    let exponents = |layout: u32, stripe: u64| {
        let geometry = Geometry::of(&shape(6, layout, 5)).unwrap();
        (0..3)
            .map(|index| geometry.exponent(Stripe(stripe), geometry.data_member(Stripe(stripe), index)))
            .collect::<Vec<_>>()
    };
    // Row 2 of left-asymmetric is 6 7 P Q 8: the last comes first.
    assert_eq!(exponents(0, 2), [1, 2, 0]);
    assert_eq!(exponents(2, 2), [0, 1, 2]);
    assert_eq!(exponents(18, 1), [2, 0, 1]);
    // Row 1 of ddf-N-continue is 4 5 Q P 3.
    assert_eq!(exponents(10, 1), [4, 0, 1]);
    assert_eq!(exponents(8, 0), [2, 3, 4]);
}

#[test]
fn every_chunk_has_one_place_and_every_place_one_chunk() {
    let mut shapes = 0;
    for (shape, geometry) in all() {
        let data = geometry.data_chunks();
        assert_eq!(u32::from(data + geometry.parities()), shape.members);
        for row in (0..97).step_by(5) {
            let stripe = Stripe(row);
            let (p, q) = geometry.parity(stripe);
            assert!(Some(p) != q && q.is_some() == (shape.level == 6), "{shape:?}");
            let mut members: Vec<Role> = [Some(p), q].into_iter().flatten().collect();
            let mut exponents = Vec::new();
            for index in 0..data {
                let chunk = Chunk(row * u64::from(data) + u64::from(index));
                let located = geometry.locate(chunk);
                assert_eq!((located.stripe, located.p, located.q), (stripe, p, q));
                assert_eq!(geometry.place(stripe, located.member), Place::Data(chunk), "{shape:?}");
                members.push(located.member);
                exponents.push(located.exponent);
            }
            members.sort();
            assert!(members.windows(2).all(|pair| pair[0] < pair[1]), "{shape:?} row {row}");
            exponents.sort_unstable();
            let is_ddf = matches!(shape.layout, 8..=10) && shape.level == 6;
            if shape.level == 6 && !is_ddf {
                assert!(exponents.iter().copied().eq(0..u8::try_from(data).unwrap()), "{shape:?} row {row}");
            } else if is_ddf {
                assert!(exponents.windows(2).all(|pair| pair[0] < pair[1]));
            }
        }
        shapes += 1;
    }
    assert_eq!(shapes, 31 + 6 * 31 + 14 * 29);
}

#[test]
fn what_is_not_served_has_no_geometry() {
    for (level, layout, members) in
        [(10, 0, 4), (5, 6, 4), (5, 16, 4), (6, 7, 5), (6, 2, 3), (5, 2, 33), (5, 2, 1)]
    {
        assert_eq!(Geometry::of(&shape(level, layout, members)), None);
    }
    assert_eq!(Geometry::of(&Shape { chunk: 0, ..shape(5, 2, 4) }), None);
    assert_eq!(Geometry::of(&shape(5, 2, 4)).unwrap().sectors(), Some(8 * 97 * 3));
}

#[test]
#[should_panic(expected = "of 97 rows")]
fn chunks_behind_the_end_have_no_place() {
    let _ = Geometry::of(&shape(5, 2, 4)).unwrap().locate(Chunk(97 * 3));
}
