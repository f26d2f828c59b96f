//! Zstandard: any number of frames is read as a stream, one frame is written (SEMANTICS 0.4).

use std::cell::Cell;
use std::io;

use zstd::stream::raw::{InBuffer, Operation, OutBuffer, WriteBuf};
use zstd::stream::zio::Reader;
use zstd::zstd_safe::{DCtx, ResetDirective, get_error_name};

use super::{Buffer, CodecError, corrupt, read_piece};

/// Kafka's default of `compression.zstd.level`.
const DEFAULT_LEVEL: i32 = 3;
/// Largest context that a thread keeps, in bytes: enough for the window of 2 MiB that a stream of
/// the default level has, and its piece of input.
const KEPT_BYTES: usize = 3 * 1024 * 1024;

thread_local! {
    static KEPT: Cell<Option<DCtx<'static>>> = const { Cell::new(None) };
}

/// A context and its window: of another batch of this thread before, since making them costs a
/// small batch as much as its decompression does.
struct Context(Option<DCtx<'static>>);

pub(super) struct Decoder<'a>(Reader<&'a [u8], Context>);

impl<'a> Decoder<'a> {
    pub(super) fn new(data: &'a [u8]) -> Result<Self, CodecError> {
        let context = KEPT.take().or_else(DCtx::try_create);
        let context = context.ok_or_else(|| corrupt("there is no memory for its context"))?;
        let mut context = Context(Some(context));
        context.reinit()?;
        Ok(Self(Reader::new(data, context)))
    }

    pub(super) fn read_more(&mut self, out: &mut Buffer, limit: usize) -> Result<bool, CodecError> {
        read_piece(&mut self.0, out, limit)
    }
}

impl Context {
    fn get(&mut self) -> io::Result<&mut DCtx<'static>> {
        self.0.as_mut().ok_or(io::ErrorKind::NotConnected.into())
    }
}

impl Operation for Context {
    fn run<C: WriteBuf + ?Sized>(
        &mut self,
        input: &mut InBuffer<'_>,
        output: &mut OutBuffer<'_, C>,
    ) -> io::Result<usize> {
        let run = self.get()?.decompress_stream(output, input);
        run.map_err(|code| io::Error::other(get_error_name(code)))
    }

    fn reinit(&mut self) -> io::Result<()> {
        let reset = self.get()?.reset(ResetDirective::SessionOnly);
        reset.map_err(|code| io::Error::other(get_error_name(code)))?;
        Ok(())
    }

    fn finish<C: WriteBuf + ?Sized>(
        &mut self,
        _output: &mut OutBuffer<'_, C>,
        is_frame_done: bool,
    ) -> io::Result<usize> {
        if is_frame_done {
            Ok(0)
        } else {
            Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "incomplete frame",
            ))
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if let Some(context) = self.0.take()
            && context.sizeof() <= KEPT_BYTES
        {
            KEPT.set(Some(context));
        }
    }
}

pub(super) type Encoder = zstd::stream::write::Encoder<'static, Vec<u8>>;

/// With the size in its header a frame asks its reader for no more memory than it needs.
pub(super) fn encoder(level: Option<i32>, size: Option<usize>) -> io::Result<Encoder> {
    let range = zstd::compression_level_range();
    let level = level
        .unwrap_or(DEFAULT_LEVEL)
        .clamp(*range.start(), *range.end());
    let mut encoder = Encoder::new(Vec::new(), level)?;
    encoder.set_pledged_src_size(size.map(|size| size as u64))?;
    Ok(encoder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(data: &[u8]) -> Result<Vec<u8>, String> {
        super::super::decompress(crate::batch::Compression::Zstd, data, usize::MAX >> 1)
            .map_err(|error| error.to_string())
    }

    /// `log` is the window's size as a power of two.
    fn frame(data: &[u8], log: u32) -> Vec<u8> {
        use std::io::Write;
        let mut encoder = encoder(None, None).unwrap();
        encoder.window_log(log).unwrap();
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    fn kept() -> Option<usize> {
        let context = KEPT.take();
        let size = context.as_ref().map(DCtx::sizeof);
        KEPT.set(context);
        size
    }

    #[test]
    fn a_thread_keeps_its_context_and_no_large_one() {
        KEPT.set(None);
        let data = vec![7; 300_000];
        assert_eq!(read(&frame(&data, 21)).unwrap(), data);
        let size = kept().expect("one with the window of the default level is kept");
        assert!(size > 1 << 21, "{size}");
        assert_eq!(read(&frame(&data, 21)).unwrap(), data);
        assert_eq!(kept(), Some(size), "the same");
        assert_eq!(read(&frame(&data, 24)).unwrap(), data);
        assert_eq!(kept(), None);
    }

    #[test]
    fn what_a_batch_left_in_the_context_does_not_reach_the_next() {
        let (one, two) = (vec![1; 100_000], vec![2; 100_000]);
        let (first, second) = (frame(&one, 21), frame(&two, 21));
        for cut in [1, 5, first.len() / 2, first.len() - 1] {
            read(&first[..cut]).unwrap_err();
            assert!(
                kept().is_some(),
                "this is about a context that is used again"
            );
            assert_eq!(read(&second).unwrap(), two);
        }
        let mut damaged = first.clone();
        damaged[8] ^= 0xff;
        let _ = read(&damaged);
        assert_eq!(read(&second).unwrap(), two);
        // Left in the middle, as by a limit.
        let mut decoder = Decoder::new(&first).ok().unwrap();
        assert!(matches!(
            decoder.read_more(&mut Buffer::fresh(), 10),
            Ok(true)
        ));
        drop(decoder);
        assert_eq!(read(&second).unwrap(), two);
    }
}
