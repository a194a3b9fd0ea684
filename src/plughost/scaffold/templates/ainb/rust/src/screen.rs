//! What is painted.
use crate::json::Json;
use std::collections::BTreeMap;

pub const BOLD: i64 = 1;

/// A screen's worth of cells; what is painted outside is left out.
pub struct Screen {
    pub width: i64,
    pub height: i64,
    cells: BTreeMap<(i64, i64), Json>,
}

impl Screen {
    pub fn new(width: i64, height: i64) -> Screen {
        Screen {
            width,
            height,
            cells: BTreeMap::new(),
        }
    }

    /// Writes text from a cell on, a character a cell or, when it is a wide one, in two.
    pub fn put(&mut self, x: i64, y: i64, text: &str, style: i64) {
        for (column, symbol) in (x..).zip(cells(text)) {
            if (0..self.width).contains(&column) && (0..self.height).contains(&y) {
                let cell = Json::object([("symbol", symbol.into()), ("modifier", style.into())]);
                self.cells.insert((y, column), cell);
            }
        }
    }

    pub fn to_json(&self) -> Json {
        let cells = self.cells.iter().map(|((y, x), cell)| {
            let place = Json::object([("x", (*x).into()), ("y", (*y).into())]);
            Json::List(vec![place, cell.clone()])
        });
        let cells = Json::List(cells.collect());
        Json::object([
            ("width", self.width.into()),
            ("height", self.height.into()),
            ("cells", cells),
        ])
    }
}

/// The characters of a text, each with the marks on it, and an empty one behind what is two columns wide.
fn cells(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for character in text.chars() {
        if is_mark(character) && !found.is_empty() {
            let below = found.iter().rposition(|cell| !cell.is_empty());
            found[below.unwrap_or(0)].push(character);
        } else {
            found.push(character.to_string());
            if is_wide(character) {
                found.push(String::new());
            }
        }
    }
    found
}

fn is_mark(character: char) -> bool {
    matches!(character as u32,
        0x300..=0x36f | 0x483..=0x489 | 0x591..=0x5bd | 0x610..=0x61a | 0x64b..=0x65f | 0x93c | 0x941..=0x948
        | 0x94d | 0xe31 | 0xe34..=0xe3a | 0xe47..=0xe4e | 0x1ab0..=0x1aff | 0x1dc0..=0x1dff | 0x200d
        | 0x20d0..=0x20ff | 0x302a..=0x302d | 0x3099 | 0x309a | 0xfe00..=0xfe0f | 0xfe20..=0xfe2f)
}

fn is_wide(character: char) -> bool {
    matches!(character as u32,
        0x1100..=0x115f | 0x2e80..=0x303e | 0x3041..=0xa4cf | 0xa960..=0xa97c | 0xac00..=0xd7a3
        | 0xf900..=0xfaff | 0xfe30..=0xfe6f | 0xff01..=0xff60 | 0xffe0..=0xffe6 | 0x1f300..=0x1f64f
        | 0x1f680..=0x1f6ff | 0x1f900..=0x1f9ff | 0x20000..=0x3fffd)
}
