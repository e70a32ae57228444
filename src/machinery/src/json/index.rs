//! A document that is looked at where it stands: the places of its values, without a tree.
//!
//! For readers that go through a document once and copy most of it, such as the encoder of protobuf.

use std::borrow::Cow;

use super::{MAX_DEPTH, number, text};

/// An integer of so many digits is one that a double can hold, if not exactly.
const MAX_SURE_DIGITS: usize = 300;

/// A document with the places of its values.
#[derive(Debug)]
pub struct JsonIndex<'t> {
    text: &'t str,
    /// In the order of the text. The entries of an object are its keys and values in turn.
    places: Vec<IndexedPlace>,
    is_compact: bool,
}

/// The place of a value or key in the text.
#[derive(Debug, Clone, Copy)]
struct IndexedPlace {
    sort: Sort,
    /// The offset of its first byte and of the one behind its last; of strings without their quotes.
    start: u32,
    end: u32,
    /// The number of the next value that is not within this one.
    next: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    Null,
    Bool,
    Number,
    Plain,
    /// A string with escapes.
    Escaped,
    List,
    Object,
}

/// A value of a document.
#[derive(Debug, Clone, Copy)]
pub struct JsonNode<'i> {
    index: &'i JsonIndex<'i>,
    at: u32,
}

impl<'t> JsonIndex<'t> {
    /// Finds the values of a document; nothing if it is none, or one that [`decode`](super::decode()) refuses. Escapes are not
    /// looked at before they are read.
    pub fn read(text: &'t str) -> Option<Self> {
        // Offsets and numbers are kept in 32 bits.
        u32::try_from(text.len()).ok()?;
        let reader = IndexReader {
            text,
            at: 0,
            // There is a value for every 20 bytes or so.
            places: Vec::with_capacity(text.len() / 16),
            open: Vec::new(),
            is_compact: true,
        };
        reader.run()
    }

    /// True if nothing in the document is white space.
    pub fn is_compact(&self) -> bool {
        self.is_compact
    }

    /// The value of the whole document.
    pub fn root(&self) -> JsonNode<'_> {
        JsonNode { index: self, at: 0 }
    }

    /// The value with this [number](JsonNode::number).
    pub fn node(&self, number: u32) -> JsonNode<'_> {
        JsonNode {
            index: self,
            at: number,
        }
    }

    fn place(&self, at: u32) -> IndexedPlace {
        let place = self.places.get(at as usize);
        *place.expect("numbers are those of values that were found")
    }

    fn bytes(&self, place: IndexedPlace) -> &str {
        self.text
            .get(place.start as usize..place.end as usize)
            .expect("values begin and end with ASCII")
    }
}

impl<'i> JsonNode<'i> {
    /// The number of the value in its document.
    pub fn number(self) -> u32 {
        self.at
    }

    fn place(self) -> IndexedPlace {
        self.index.place(self.at)
    }

    /// The value as it is written; a string without its quotes.
    pub fn raw(self) -> &'i str {
        self.index.bytes(self.place())
    }

    /// The value as it is written, with quotes.
    pub fn json(self) -> &'i str {
        let place = self.place();
        match place.sort {
            Sort::Plain | Sort::Escaped => self.index.bytes(IndexedPlace {
                start: place.start.saturating_sub(1),
                end: place.end.saturating_add(1),
                ..place
            }),
            _ => self.index.bytes(place),
        }
    }

    /// True for `null`.
    pub fn is_null(self) -> bool {
        self.place().sort == Sort::Null
    }

    /// True for an object.
    pub fn is_object(self) -> bool {
        self.place().sort == Sort::Object
    }

    /// True for a list.
    pub fn is_list(self) -> bool {
        self.place().sort == Sort::List
    }

    /// `true` or `false`.
    pub fn as_bool(self) -> Option<bool> {
        (self.place().sort == Sort::Bool).then(|| self.raw() == "true")
    }

    /// An integer.
    pub fn as_i64(self) -> Option<i64> {
        let is_number = self.place().sort == Sort::Number;
        is_number.then(|| self.raw().parse().ok()).flatten()
    }

    /// A number.
    pub fn as_f64(self) -> Option<f64> {
        let is_number = self.place().sort == Sort::Number;
        is_number.then(|| self.raw().parse().ok()).flatten()
    }

    /// A string, which is read if it has escapes.
    pub fn as_str(self) -> Option<Cow<'i, str>> {
        self.index.string(self.place())
    }

    /// The items of a list.
    pub fn items(self) -> Option<impl Iterator<Item = JsonNode<'i>>> {
        self.is_list().then(|| self.children())
    }

    /// The keys and values of an object; nothing for a key whose escapes cannot be read.
    pub fn entries(self) -> Option<impl Iterator<Item = Option<(Cow<'i, str>, JsonNode<'i>)>>> {
        self.is_object().then(|| {
            let mut children = self.children();
            std::iter::from_fn(move || {
                let (key, value) = (children.next()?, children.next()?);
                Some(key.as_str().map(|key| (key, value)))
            })
        })
    }

    fn children(self) -> impl Iterator<Item = JsonNode<'i>> {
        let (index, end) = (self.index, self.place().next);
        let first = self.at.saturating_add(1);
        let within = move |at: &u32| *at < end;
        let after = move |at: &u32| Some(index.place(*at).next).filter(within);
        std::iter::successors(Some(first).filter(within), after).map(move |at| JsonNode { index, at })
    }
}

impl JsonIndex<'_> {
    fn string(&self, place: IndexedPlace) -> Option<Cow<'_, str>> {
        match place.sort {
            Sort::Plain => Some(Cow::Borrowed(self.bytes(place))),
            Sort::Escaped => {
                let rest = self.text.as_bytes().get(place.start as usize..)?;
                text::read(rest).ok().map(|(text, _)| Cow::Owned(text))
            }
            _ => None,
        }
    }
}

struct IndexReader<'t> {
    text: &'t str,
    at: usize,
    places: Vec<IndexedPlace>,
    /// The numbers of the lists and objects that are not closed yet.
    open: Vec<u32>,
    is_compact: bool,
}

impl<'t> IndexReader<'t> {
    fn run(mut self) -> Option<JsonIndex<'t>> {
        loop {
            if self.value()? {
                continue;
            }
            // A value is complete: what it stands in goes on or ends.
            while let Some(open) = self.open.last().copied() {
                let is_object = self.places.get(open as usize)?.sort == Sort::Object;
                match (self.next_token()?, is_object) {
                    (b',', true) => {
                        self.at = self.at.saturating_add(1);
                        self.key()?;
                        break;
                    }
                    (b',', false) => {
                        self.at = self.at.saturating_add(1);
                        break;
                    }
                    (b'}', true) | (b']', false) => self.close()?,
                    _ => return None,
                }
            }
            if self.open.is_empty() {
                return self.finish();
            }
        }
    }

    fn finish(mut self) -> Option<JsonIndex<'t>> {
        if self.next_token().is_some() {
            return None;
        }
        Some(JsonIndex {
            text: self.text,
            places: self.places,
            is_compact: self.is_compact,
        })
    }

    /// Reads a value, or the beginning of one that is not empty, which gives true.
    fn value(&mut self) -> Option<bool> {
        let first = self.next_token()?;
        let start = self.at;
        match first {
            b'{' | b'[' => {
                let (sort, end) = match first {
                    b'{' => (Sort::Object, b'}'),
                    _ => (Sort::List, b']'),
                };
                if self.open.len() >= MAX_DEPTH {
                    return None;
                }
                let number = self.push(sort, start, start)?;
                self.open.push(number);
                self.at = self.at.saturating_add(1);
                if self.next_token()? == end {
                    self.close()?;
                    return Some(false);
                }
                if sort == Sort::Object {
                    self.key()?;
                }
                return Some(true);
            }
            b'"' => self.string()?,
            b'-' | b'0'..=b'9' => {
                let (length, is_integer) = number::scan(self.rest()).ok()?;
                self.at = self.at.saturating_add(length);
                self.push(Sort::Number, start, self.at)?;
                // Numbers that no double can hold are refused.
                if !is_integer || length > MAX_SURE_DIGITS {
                    number::parse(self.text.get(start..self.at)?, is_integer).ok()?;
                }
            }
            b't' => self.word("true", Sort::Bool)?,
            b'f' => self.word("false", Sort::Bool)?,
            b'n' => self.word("null", Sort::Null)?,
            _ => return None,
        }
        Some(false)
    }

    fn key(&mut self) -> Option<()> {
        if self.next_token()? != b'"' {
            return None;
        }
        self.string()?;
        if self.next_token()? != b':' {
            return None;
        }
        self.at = self.at.saturating_add(1);
        Some(())
    }

    fn close(&mut self) -> Option<()> {
        self.at = self.at.saturating_add(1);
        let end = u32::try_from(self.at).ok()?;
        let next = u32::try_from(self.places.len()).ok()?;
        let number = self.open.pop()?;
        let place = self.places.get_mut(number as usize)?;
        (place.end, place.next) = (end, next);
        Some(())
    }

    fn string(&mut self) -> Option<()> {
        let start = self.at.saturating_add(1);
        let mut sort = Sort::Plain;
        self.at = start;
        loop {
            self.at = self.at.saturating_add(text::plain_length(self.rest()));
            match self.rest().first()? {
                b'"' => break,
                b'\\' => {
                    sort = Sort::Escaped;
                    // The byte that is escaped may be a quote.
                    self.at = self.at.saturating_add(2);
                }
                _ => return None,
            }
        }
        self.push(sort, start, self.at)?;
        self.at = self.at.saturating_add(1);
        Some(())
    }

    fn word(&mut self, word: &str, sort: Sort) -> Option<()> {
        let start = self.at;
        if !self.rest().starts_with(word.as_bytes()) {
            return None;
        }
        self.at = self.at.saturating_add(word.len());
        self.push(sort, start, self.at)?;
        Some(())
    }

    /// Notes a value; gives back its number.
    fn push(&mut self, sort: Sort, start: usize, end: usize) -> Option<u32> {
        let number = u32::try_from(self.places.len()).ok()?;
        self.places.push(IndexedPlace {
            sort,
            start: u32::try_from(start).ok()?,
            end: u32::try_from(end).ok()?,
            next: number.checked_add(1)?,
        });
        Some(number)
    }

    fn rest(&self) -> &'t [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    /// The next byte that is not white space.
    fn next_token(&mut self) -> Option<u8> {
        loop {
            let byte = *self.text.as_bytes().get(self.at)?;
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return Some(byte);
            }
            self.is_compact = false;
            self.at = self.at.saturating_add(1);
        }
    }
}
