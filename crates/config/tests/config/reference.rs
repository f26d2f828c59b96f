//! The reference page is what the tables say.

use std::path::Path;

use strandline_config::reference_markdown;

/// `STRANDLINE_WRITE_DOCS=1 cargo test -p strandline-config` writes the page anew.
#[test]
fn the_reference_page_is_up_to_date() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/configs.md");
    let expected = reference_markdown();
    if std::env::var_os("STRANDLINE_WRITE_DOCS").is_some() {
        std::fs::create_dir_all(page.parent().unwrap()).unwrap();
        std::fs::write(&page, &expected).unwrap();
    }
    let written = std::fs::read_to_string(&page).unwrap_or_default();
    assert!(
        written == expected,
        "docs/reference/configs.md differs from the tables: run the test with STRANDLINE_WRITE_DOCS=1"
    );
}
