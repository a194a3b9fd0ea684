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

    /// Writes text from a cell on, a character a cell.
    pub fn put(&mut self, x: i64, y: i64, text: &str, style: i64) {
        for (column, symbol) in (x..).zip(text.chars()) {
            if (0..self.width).contains(&column) && (0..self.height).contains(&y) {
                let cell = Json::object([
                    ("symbol", symbol.to_string().into()),
                    ("modifier", style.into()),
                ]);
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
