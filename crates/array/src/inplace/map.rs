//! Map of the volume: which strip, row and piece a block is, and where that lies on its member.
//!
//! ```text
//! row     one block of 4 KiB of each member, at one place: what has parities of its own
//! strip   up to 128 rows of one stripe, one behind the other: what is locked and written at once
//! piece   a member's block of a row by its number in the erasure code: data by exponents, then P, then Q
//! ```
//! Strips count like rows do, over all stripes: row r lies at sector 8 r of every member's data.

use super::few::Few;
use base::erasure::ErasureCode;
use base::pieces::PieceSet;
use base::units::Lba;
use block::md::Role;
use block::md::geometry::{Geometry, Stripe};
use block::md::reader::ROW_SECTORS;
use std::ops::Range;

/// Most rows of a strip: larger chunks are cut, so that the memory of a strip has a bound.
pub const STRIP_ROWS_MAX: u64 = 128;

/// Strip by its place on the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Strip(pub u64);

/// Place of a block within its strip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Strip.
    pub strip: Strip,
    /// Row within the strip.
    pub row: u16,
    /// Data chunk of the stripe, in the order of the volume.
    pub chunk: u16,
}

/// Number of an order: looked up once for a strip in work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderIndex(usize);

/// Members of a strip in the order of its code.
#[derive(Clone, Debug)]
pub struct Order {
    /// Member of each piece.
    pub members: Few<Role>,
    /// Piece of each data chunk.
    pieces: Few<u8>,
    /// Code of data and parities.
    pub code: ErasureCode,
}

impl Order {
    /// Pieces whose members are among these roles.
    #[inline]
    #[must_use]
    pub fn pieces_of(&self, roles: PieceSet) -> PieceSet {
        if roles == PieceSet::first(self.members.len()) {
            return roles;
        }
        let is_among = |(_, member): &(usize, &Role)| roles.contains(member.index());
        self.members.iter().enumerate().filter(is_among).map(|(piece, _)| piece).collect()
    }

    /// Piece of a data chunk.
    #[inline]
    #[must_use]
    pub fn piece(&self, chunk: u16) -> usize {
        usize::from(self.pieces[usize::from(chunk)])
    }

    /// Of these pieces of data, those of the first chunks that follow one another: what one entry of a partial parity log names.
    #[must_use]
    pub fn first_run(&self, pieces: PieceSet) -> PieceSet {
        let in_order = self.pieces.iter().map(|piece| usize::from(*piece));
        in_order
            .skip_while(|piece| !pieces.contains(*piece))
            .take_while(|piece| pieces.contains(*piece))
            .collect()
    }

    /// Order of a stripe.
    ///
    /// # Panics
    /// Never: a geometry has 2 to 32 members.
    fn of(geometry: &Geometry, stripe: Stripe) -> Order {
        let chunks = geometry.data_chunks();
        let mut data: Vec<(u8, Role, u16)> = (0..chunks)
            .map(|chunk| {
                let member = geometry.data_member(stripe, chunk);
                (geometry.exponent(stripe, member), member, chunk)
            })
            .collect();
        data.sort_by_key(|(exponent, _, _)| *exponent);
        let mut pieces = vec![0; usize::from(chunks)];
        for (piece, (_, _, chunk)) in (0..).zip(&data) {
            pieces[usize::from(*chunk)] = piece;
        }
        let (p, q) = geometry.parity(stripe);
        let code = match q {
            None => ErasureCode::new(data.len(), 1),
            Some(_) => {
                let exponents = data.iter().map(|(exponent, _, _)| usize::from(*exponent));
                ErasureCode::with_exponents(exponents.collect(), 2)
            }
        };
        Order {
            members: data.iter().map(|(_, member, _)| *member).chain([p]).chain(q).collect(),
            pieces: pieces.into_iter().collect(),
            code: code.expect("2 to 32 members"),
        }
    }
}

/// Map of a volume.
#[derive(Clone, Debug)]
pub struct Map {
    geometry: Geometry,
    blocks: u64,
    chunk_rows: u64,
    strip_rows: u64,
    /// Orders of the first stripes, which all others repeat.
    orders: Vec<Order>,
}

impl Map {
    /// Map of a geometry; `None` where chunks are not whole rows of a power of two.
    #[must_use]
    pub fn new(geometry: Geometry) -> Option<Map> {
        Map::with_strips(geometry, STRIP_ROWS_MAX)
    }

    /// The same with strips of so many rows at most, a power of two.
    #[must_use]
    pub fn with_strips(geometry: Geometry, rows_max: u64) -> Option<Map> {
        assert!(rows_max.is_power_of_two() && rows_max <= STRIP_ROWS_MAX, "strips of {rows_max} rows");
        let sectors = geometry.chunk_sectors();
        if !sectors.is_power_of_two() || sectors < ROW_SECTORS || geometry.sectors().is_none() {
            return None;
        }
        let chunk_rows = sectors / ROW_SECTORS;
        let orders = (0..u64::from(geometry.period())).map(|stripe| Order::of(&geometry, Stripe(stripe)));
        let blocks = geometry.stripes() * chunk_rows * u64::from(geometry.data_chunks());
        let strip_rows = chunk_rows.min(rows_max);
        assert!(
            chunk_rows.is_multiple_of(strip_rows),
            "strips of {strip_rows} rows do not fill chunks of {chunk_rows}"
        );
        let orders = orders.collect();
        Some(Map { geometry, blocks, chunk_rows, strip_rows, orders })
    }

    /// Geometry of the array.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Blocks of the volume.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Rows of the array.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.geometry.stripes() * self.chunk_rows
    }

    /// Rows of a chunk.
    #[must_use]
    pub fn chunk_rows(&self) -> u64 {
        self.chunk_rows
    }

    /// Data pieces of a row.
    #[must_use]
    pub fn data_count(&self) -> usize {
        usize::from(self.geometry.data_chunks())
    }

    /// Rows of a strip.
    #[must_use]
    pub fn strip_rows(&self) -> u64 {
        self.strip_rows
    }

    /// Strips of the array.
    #[must_use]
    pub fn strips(&self) -> u64 {
        self.rows() / self.strip_rows
    }

    /// Data blocks of a strip.
    #[must_use]
    pub fn strip_blocks(&self) -> u64 {
        self.strip_rows * u64::from(self.geometry.data_chunks())
    }

    /// Rows of one strip, by their places on the members.
    #[must_use]
    pub fn rows_of(&self, strip: Strip) -> Range<u64> {
        strip.0 * self.strip_rows..(strip.0 + 1) * self.strip_rows
    }

    /// Strip of a row.
    #[must_use]
    pub fn strip_of(&self, row: u64) -> Strip {
        Strip(row / self.strip_rows)
    }

    /// Stripe of a strip.
    #[must_use]
    pub fn stripe(&self, strip: Strip) -> Stripe {
        Stripe(strip.0 * self.strip_rows / self.chunk_rows)
    }

    /// Place of a block.
    ///
    /// # Panics
    /// When the volume has no such block.
    #[must_use]
    pub fn place(&self, lba: Lba) -> Place {
        assert!(lba.0 < self.blocks(), "block {lba} of {}", self.blocks());
        let per_row = u64::from(self.geometry.data_chunks());
        let (chunk, within) = (lba.0 / self.chunk_rows, lba.0 % self.chunk_rows);
        let row = chunk / per_row * self.chunk_rows + within;
        Place {
            strip: self.strip_of(row),
            row: u16::try_from(row % self.strip_rows).expect("at most 128 rows of a strip"),
            chunk: u16::try_from(chunk % per_row).expect("at most 31 data chunks"),
        }
    }

    /// Block at a row of a strip, in a data chunk of its stripe.
    #[must_use]
    pub fn lba(&self, strip: Strip, row: u16, chunk: u16) -> Lba {
        let row = strip.0 * self.strip_rows + u64::from(row);
        let first = self.stripe(strip).0 * u64::from(self.geometry.data_chunks()) + u64::from(chunk);
        Lba(first * self.chunk_rows + row % self.chunk_rows)
    }

    /// Block that a piece of data of a row is.
    ///
    /// # Panics
    /// When the piece is none of data.
    #[must_use]
    pub fn lba_of(&self, strip: Strip, row: u16, piece: usize) -> Lba {
        let order = self.order(strip);
        let mut chunks = 0..self.geometry.data_chunks();
        let chunk = chunks.find(|chunk| order.piece(*chunk) == piece).expect("a piece of data");
        self.lba(strip, row, chunk)
    }

    /// Member that holds a block, and the block's row.
    ///
    /// # Panics
    /// When the volume has no such block.
    #[must_use]
    pub fn locate(&self, lba: Lba) -> (Role, u64) {
        let place = self.place(lba);
        let order = self.order(place.strip);
        let member = order.members[order.piece(place.chunk)];
        (member, place.strip.0 * self.strip_rows + u64::from(place.row))
    }

    /// Members of a strip in the order of its code.
    #[inline]
    #[must_use]
    pub fn order(&self, strip: Strip) -> &Order {
        self.order_at(self.order_index(strip))
    }

    /// Number of a strip's order.
    #[inline]
    #[must_use]
    pub fn order_index(&self, strip: Strip) -> OrderIndex {
        let count = u64::try_from(self.orders.len()).expect("at most 32");
        OrderIndex(usize::try_from(self.stripe(strip).0 % count).expect("less than 32"))
    }

    /// Order by its number.
    #[inline]
    #[must_use]
    pub fn order_at(&self, index: OrderIndex) -> &Order {
        &self.orders[index.0]
    }

    /// Row on the members of a row within a strip.
    pub(super) fn row_of(&self, strip: Strip, row: u16) -> u64 {
        strip.0 * self.strip_rows() + u64::from(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::md::geometry::Chunk;
    use block::md::superblock::Shape;

    fn map(level: i32, layout: u32, chunk: u32, members: u32) -> Map {
        let shape = Shape { level, layout, size: u64::from(chunk) * 7, chunk, members };
        Map::new(Geometry::of(&shape).unwrap()).unwrap()
    }

    #[test]
    fn chunks_that_are_no_whole_rows_have_no_map() {
        let with_chunk = |chunk: u32| {
            let shape = Shape { level: 5, layout: 2, size: u64::from(chunk) * 7, chunk, members: 4 };
            Geometry::of(&shape).and_then(Map::new).is_some()
        };
        assert!([8, 16, 1024].into_iter().all(with_chunk));
        assert!(![1, 2, 4].into_iter().any(with_chunk), "less than a row");
        assert!(![24, 40, 96].into_iter().any(with_chunk), "no power of two");
    }

    #[test]
    fn every_block_lies_where_the_geometry_has_its_chunk() {
        for (level, layout, chunk, members) in
            [(5, 2, 8, 4), (5, 1, 128, 3), (6, 2, 4096, 5), (6, 10, 64, 6), (6, 19, 32, 4), (4, 0, 16, 2)]
        {
            let map = map(level, layout, chunk, members);
            let chunk_rows = u64::from(chunk) / 8;
            assert_eq!(map.blocks(), 7 * chunk_rows * u64::from(map.geometry().data_chunks()));
            for lba in (0..map.blocks()).map(Lba) {
                let located = map.geometry().locate(Chunk(lba.0 / chunk_rows));
                let row = located.stripe.0 * chunk_rows + lba.0 % chunk_rows;
                assert_eq!(map.locate(lba), (located.member, row));
                let place = map.place(lba);
                assert_eq!(map.lba(place.strip, place.row, place.chunk), lba);
                assert!(map.rows_of(place.strip).contains(&row) && map.stripe(place.strip) == located.stripe);
                let order = map.order(place.strip);
                assert_eq!(order.members[order.piece(place.chunk)], located.member);
            }
        }
    }

    #[test]
    fn orders_repeat_in_every_layout() {
        let layouts =
            [(4, vec![0]), (5, (0..=5).collect()), (6, (0..=5).chain([8, 9, 10]).chain(16..=20).collect())];
        for (level, layouts) in layouts {
            for (layout, members) in
                layouts.into_iter().flat_map(|layout| [4, 5, 7].map(|count| (layout, count)))
            {
                let map = map(level, layout, 8, members);
                for strip in (0..99).map(Strip) {
                    let (known, fresh) = (map.order(strip), Order::of(map.geometry(), map.stripe(strip)));
                    let of = |order: &Order| (order.members.to_vec(), order.pieces.to_vec(), order.code);
                    assert_eq!(of(known), of(&fresh), "level {level}, layout {layout}, {strip:?}");
                }
            }
        }
    }

    #[test]
    fn strips_of_large_chunks_are_cut() {
        let map = map(5, 2, 4096, 4);
        assert_eq!((map.strip_rows(), map.strips()), (128, 28));
        assert_eq!(map.stripe(Strip(5)), Stripe(1));
    }
}
