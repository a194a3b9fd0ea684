//! Frames: `Content-Length: n`, CRLF, CRLF, n bytes.
use std::io::{self, BufRead, Read, Write};

const MAX_HEADER: u64 = 8 << 10;
pub const MAX_BODY: usize = 16 << 20;

/// The body of the next frame; None when the stream ends between two of them.
pub fn read(input: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let Some(length) = read_length(input)? else {
        return Ok(None);
    };
    if length > MAX_BODY {
        return Err(broken(format!(
            "a body of {length} bytes is over the limit of {MAX_BODY}"
        )));
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body)?;
    Ok(Some(body))
}

fn read_length(input: &mut impl BufRead) -> io::Result<Option<usize>> {
    let mut header = input.take(MAX_HEADER);
    let mut length = None;
    loop {
        let mut line = Vec::new();
        header.read_until(b'\n', &mut line)?;
        match (line.as_slice(), length) {
            (b"", None) if header.limit() == MAX_HEADER => return Ok(None),
            (b"\r\n", Some(_)) => return Ok(length),
            (_, _) if is_content_type(&line) => continue, // as LSP has it
            (_, Some(_)) => return Err(broken(not_a_header(&line))),
            _ => length = Some(content_length(&line).ok_or_else(|| broken(not_a_header(&line)))?),
        }
    }
}

fn is_content_type(line: &[u8]) -> bool {
    let header = std::str::from_utf8(line).unwrap_or("").split_once(':');
    header.is_some_and(|(name, _)| name.trim().eq_ignore_ascii_case("Content-Type"))
}

fn content_length(line: &[u8]) -> Option<usize> {
    let (name, value) = std::str::from_utf8(line)
        .ok()?
        .strip_suffix("\r\n")?
        .split_once(':')?;
    let known = name.trim().eq_ignore_ascii_case("Content-Length");
    known.then(|| value.trim().parse().ok()).flatten()
}

fn not_a_header(line: &[u8]) -> String {
    format!(
        "not a header: {}",
        String::from_utf8_lossy(&line[..line.len().min(80)])
    )
}

fn broken(why: String) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the host's stream cannot be read: {why}"),
    )
}

pub fn write(output: &mut impl Write, body: &str) -> io::Result<()> {
    output.write_all(format!("Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes())
}
