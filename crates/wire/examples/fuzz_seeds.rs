//! Writes the frames from which the fuzzer starts: one for each version of each API, small, with
//! most of its fields set. Run with `cargo run -p strandline-wire --example fuzz_seeds`.

#[path = "../tests/requests/each.rs"]
#[expect(dead_code, reason = "tests use the rest")]
mod each;
#[path = "../tests/requests/fill.rs"]
mod fill;
#[path = "../tests/requests/filler.rs"]
#[expect(dead_code, reason = "tests use the rest")]
mod filler;

use std::path::Path;
use std::{fs, io};

use filler::Filler;

/// Longest body of a seed, in bytes.
const MAX_BYTES: usize = 200;
/// The target's mode for whole frames.
const ANY_FRAME: u8 = 0;

fn main() -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/frame");
    fs::create_dir_all(&folder)?;
    for (api, version) in each::every_version() {
        let bodies = (0..200).map(|seed| each::filled(&mut Filler::seeded(api, version, seed)));
        let small = bodies.filter(|body| body.len() <= MAX_BYTES);
        let Some(body) = small.max_by_key(|body| body.len()) else {
            return Err(io::Error::other(format!(
                "no small body of {} {version}",
                api.name
            )));
        };
        let frame = each::frame(api, version, &body);
        let seed = [&[ANY_FRAME], &frame[..]].concat();
        fs::write(folder.join(format!("{}-{version}", api.name)), seed)?;
    }
    Ok(())
}
