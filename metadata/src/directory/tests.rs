use super::*;

const ID: &str = "AAAAAAAAAAAAAAAAAAAAAQ";

fn open(dir: &Path, wanted: Option<&str>) -> Result<Directory, OpenError> {
    Directory::open(dir, BrokerId(3), wanted.map(str::to_owned))
}

//
#[test]
fn ids_are_made_once() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path(), None).unwrap();
    let (cluster, directory) = (
        first.cluster_id().to_owned(),
        first.directory_id().to_owned(),
    );
    assert_eq!((cluster.len(), directory.len()), (22, 22));
    drop(first);
    let again = open(dir.path(), Some(&cluster)).unwrap();
    assert_eq!(
        (again.cluster_id(), again.directory_id()),
        (&*cluster, &*directory)
    );
    let text = fs::read_to_string(dir.path().join("meta.properties")).unwrap();
    let expected =
        format!("#\nversion=1\ncluster.id={cluster}\nnode.id=3\ndirectory.id={directory}\n");
    assert_eq!(text, expected);
}

#[test]
fn a_wanted_id_is_taken_and_a_bad_one_refused() {
    let dir = tempfile::tempdir().unwrap();
    for bad in [
        "",
        "short",
        "AAAAAAAAAAAAAAAAAAAAAA",
        "AAAAAAAAAAAAAAAAAAAAA!",
    ] {
        let error = open(dir.path(), Some(bad)).unwrap_err();
        assert!(
            matches!(error, OpenError::InvalidClusterId(_)),
            "{bad}: {error}"
        );
    }
    assert_eq!(open(dir.path(), Some(ID)).unwrap().cluster_id(), ID);
}

#[test]
fn a_directory_is_opened_once() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path(), None).unwrap();
    assert!(matches!(open(dir.path(), None), Err(OpenError::Locked(_))));
    first.unlock();
    open(dir.path(), None).unwrap();
}

#[test]
fn what_kafka_wrote_is_read_and_what_is_missing_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("meta.properties");
    let whole = format!("#\n#Thu\nnode.id=3\nversion=1\ncluster.id={ID}\ndirectory.id={ID}\n");
    fs::write(&path, &whole).unwrap();
    assert_eq!(open(dir.path(), None).unwrap().cluster_id(), ID);
    for key in ["version", "cluster.id", "node.id", "directory.id"] {
        let lines = whole.lines().filter(|line| !line.starts_with(key));
        fs::write(&path, lines.collect::<Vec<_>>().join("\n")).unwrap();
        let error = open(dir.path(), None).unwrap_err().to_string();
        assert!(error.contains(key), "{error}");
    }
    fs::write(&path, whole.replace("version=1", "version=2")).unwrap();
    assert!(matches!(
        open(dir.path(), None),
        Err(OpenError::Properties { .. })
    ));
}
