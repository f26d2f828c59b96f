//! Settings of a broker that a tool writes back as it read them (D-42, D-43).

use strandline_wire::messages as m;

use crate::client::{Broker, text};

const BROKER: i8 = 4;

/// All settings that have a value.
fn describe(broker: &Broker) -> Vec<(String, String)> {
    let resource = m::describe_configs_request::DescribeConfigsResource::default()
        .with_resource_type(BROKER)
        .with_resource_name(text("1"))
        .with_configuration_keys(None);
    let request = m::DescribeConfigsRequest::default().with_resources(vec![resource]);
    let response: m::DescribeConfigsResponse = broker.call(4, &request);
    let configs = response.results[0].configs.iter();
    configs
        .filter_map(|c| Some((c.name.to_string(), c.value.as_ref()?.to_string())))
        .collect()
}

fn write_back(broker: &Broker, all: &[(String, String)]) -> i16 {
    use m::alter_configs_request as r;
    let configs = all.iter().map(|(name, value)| {
        r::AlterableConfig::default()
            .with_name(text(name))
            .with_value(Some(text(value)))
    });
    let resource = r::AlterConfigsResource::default()
        .with_resource_type(BROKER)
        .with_resource_name(text("1"))
        .with_configs(configs.collect());
    let request = m::AlterConfigsRequest::default().with_resources(vec![resource]);
    let response: m::AlterConfigsResponse = broker.call(1, &request);
    response.responses[0].error_code
}

fn set(broker: &Broker, name: &str, value: &str) -> i16 {
    use m::incremental_alter_configs_request as r;
    let config = r::AlterableConfig::default()
        .with_name(text(name))
        .with_value(Some(text(value)));
    let resource = r::AlterConfigsResource::default()
        .with_resource_type(BROKER)
        .with_resource_name(text("1"))
        .with_configs(vec![config]);
    let request = m::IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
    let response: m::IncrementalAlterConfigsResponse = broker.call(1, &request);
    response.responses[0].error_code
}

// D-42: what was written back and may not be changed is not remembered, and so is in nobody's way when the
// file says something else.
#[test]
fn what_was_written_back_blocks_no_later_change() {
    let broker = Broker::start(&["num.partitions=3"]);
    let all = describe(&broker);
    assert!(all.contains(&("num.partitions".to_owned(), "3".to_owned())));
    assert!(all.iter().any(|(name, _)| name == "listeners"));
    assert_eq!(write_back(&broker, &all), 0);
    let broker = broker.kill_and_restart(&["num.partitions=5"]);
    assert!(describe(&broker).contains(&("num.partitions".to_owned(), "5".to_owned())));
    assert_eq!(set(&broker, "log.retention.ms", "123456"), 0);
    assert_eq!(set(&broker, "num.partitions", "7"), 42, "D-43");
    let now = describe(&broker);
    assert!(now.contains(&("log.retention.ms".to_owned(), "123456".to_owned())));
    assert_eq!(write_back(&broker, &now), 0);
}
