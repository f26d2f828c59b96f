//! DeleteTopics (SEMANTICS 9.3).

use crate::controller::Decision;
use crate::controller::topics::{
    DeletedTopic, PerTopic, TopicRef, duplicate_topic, find, repeated,
};
use crate::image::Image;
use crate::record::{Record, RemoveTopicRecord};

/// Decides a DeleteTopics request (9.3).
pub(crate) fn delete_topics(
    image: &Image,
    topics: &[TopicRef],
) -> Decision<PerTopic<DeletedTopic>> {
    let found: Vec<_> = topics.iter().map(|topic| find(image, topic)).collect();
    let by_ref = repeated(topics);
    let by_id = repeated(found.iter().flatten().map(|topic| topic.id()));
    let mut records = Vec::new();
    let mut replies = Vec::new();
    for (topic, found) in topics.iter().zip(found) {
        let reply = match found {
            _ if by_ref.contains(topic) => Err(duplicate_topic(&text_of(topic))),
            Ok(found) if by_id.contains(&found.id()) => Err(duplicate_topic(&text_of(topic))),
            Ok(found) => {
                let topic_id = found.id();
                records.push(Record::RemoveTopic(RemoveTopicRecord { topic_id }));
                Ok(DeletedTopic {
                    name: found.name().clone(),
                    topic_id,
                })
            }
            Err(error) => Err(error),
        };
        replies.push(reply);
    }
    Ok((records, replies))
}

fn text_of(topic: &TopicRef) -> String {
    match topic {
        TopicRef::Name(name) => name.clone(),
        TopicRef::Id(id) => id.to_string(),
    }
}
