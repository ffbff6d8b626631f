//! Rows of a round, by their places in the strip.

use super::row::Row;
use super::row_set::RowSet;

/// Rows in order. Most are one behind the other, so that a row is found by its distance to the first.
#[derive(Debug, Default)]
pub struct Rows {
    rows: Vec<(u16, Box<Row>)>,
    set: RowSet,
}

impl Rows {
    /// Places of the rows.
    #[inline]
    #[must_use]
    pub fn set(&self) -> RowSet {
        self.set
    }

    /// Rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// True when there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Index of a place, or where it would be.
    #[inline]
    fn search(&self, place: u16) -> Result<usize, usize> {
        let (first, _) = self.rows.first().ok_or(0_usize)?;
        let guess = usize::from(place.wrapping_sub(*first));
        match self.rows.get(guess) {
            Some((found, _)) if *found == place => Ok(guess),
            _ => self.rows.binary_search_by_key(&place, |(place, _)| *place),
        }
    }

    /// Row of a place; `None` when it is none of the round's.
    #[inline]
    #[must_use]
    pub fn get(&self, place: u16) -> Option<&Row> {
        let index = self.search(place).ok()?;
        Some(&self.rows[index].1)
    }

    /// The same, to change it.
    #[inline]
    #[must_use]
    pub fn get_mut(&mut self, place: u16) -> Option<&mut Row> {
        let index = self.search(place).ok()?;
        Some(&mut self.rows[index].1)
    }

    /// Adds a row, mostly behind the others.
    ///
    /// # Panics
    /// When the place has one.
    pub fn insert(&mut self, place: u16, row: Box<Row>) {
        if self.rows.last().is_none_or(|(last, _)| *last < place) {
            self.rows.push((place, row));
        } else {
            let index = self.search(place).expect_err("a place without a row");
            self.rows.insert(index, (place, row));
        }
        self.set.insert(place);
    }

    /// Rows with their places, in order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (u16, &Row)> {
        self.rows.iter().map(|(place, row)| (*place, &**row))
    }

    /// The same, to change them.
    #[inline]
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u16, &mut Row)> {
        self.rows.iter_mut().map(|(place, row)| (*place, &mut **row))
    }

    /// Takes all rows out.
    pub fn drain(&mut self) -> impl Iterator<Item = (u16, Box<Row>)> {
        self.set = RowSet::EMPTY;
        self.rows.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_their_places() {
        let mut rows = Rows::default();
        for place in [9, 127, 0, 4] {
            let mut row = Box::new(Row::new(3));
            row.unreadable.insert(usize::from(place) % 31);
            rows.insert(place, row);
        }
        let seen: Vec<(u16, bool)> = rows
            .iter()
            .map(|(place, row)| (place, row.unreadable.contains(usize::from(place) % 31)))
            .collect();
        assert_eq!(seen, [(0, true), (4, true), (9, true), (127, true)]);
        assert!(rows.get_mut(9).is_some_and(|row| row.unreadable.contains(9)));
        assert!(rows.get_mut(8).is_none() && rows.len() == 4);
        assert_eq!(rows.drain().count(), 4);
        assert!(rows.is_empty() && rows.set().is_empty());
    }
}
