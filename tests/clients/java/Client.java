import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Kafka's own Java client as an adapter: the verbs are described in ../python/adapter.py. */
public final class Client {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static String bootstrap;

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        String[] rest = Arrays.copyOfRange(args, 2, args.length);
        switch (args[1]) {
            case "create" -> create(rest[0], Integer.parseInt(rest[1]), Arrays.asList(rest).subList(2, rest.length));
            case "produce" -> produce(rest[0], rest[1], Path.of(rest[2]));
            case "consume" -> consume(rest[0], rest[1], Path.of(rest[2]), Integer.parseInt(rest[3]), rest[4], rest[5]);
            case "offsets" -> offsets(new TopicPartition(rest[0], Integer.parseInt(rest[1])), Arrays.asList(rest).subList(2, rest.length));
            default -> throw new IllegalArgumentException("no verb " + args[1]);
        }
    }

    static Map<String, Object> settings(Object... pairs) {
        Map<String, Object> all = new HashMap<>();
        all.put("bootstrap.servers", bootstrap);
        for (int i = 0; i < pairs.length; i += 2) {
            all.put((String) pairs[i], pairs[i + 1]);
        }
        return all;
    }

    private static void create(String topic, int partitions, List<String> configs) throws Exception {
        Map<String, String> map = new HashMap<>();
        configs.forEach(each -> map.put(each.substring(0, each.indexOf('=')), each.substring(each.indexOf('=') + 1)));
        try (Admin admin = Admin.create(settings())) {
            admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1).configs(map))).all().get(30, TimeUnit.SECONDS);
        }
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : text.textValue().getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] data) {
        return data == null ? null : new String(data, StandardCharsets.UTF_8);
    }

    /** With the producer's defaults: idempotent, acks=all, five requests in flight. */
    private static void produce(String topic, String codec, Path rows) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (var producer = new KafkaProducer<>(settings("compression.type", codec, "linger.ms", 20), new ByteArraySerializer(), new ByteArraySerializer())) {
            for (String line : Files.readAllLines(rows)) {
                JsonNode row = JSON.readTree(line);
                var record = new ProducerRecord<>(topic, row.get("partition").intValue(), row.get("timestamp").longValue(), bytes(row.get("key")), bytes(row.get("value")));
                row.get("headers").forEach(pair -> record.headers().add(pair.get(0).textValue(), bytes(pair.get(1))));
                sent.add(producer.send(record));
            }
            producer.flush();
            for (var each : sent) {
                each.get(60, TimeUnit.SECONDS);
            }
        }
    }

    private static void consume(String topic, String group, Path out, int count, String fetchBytes, String partitionBytes) throws Exception {
        Map<String, Object> all = settings("group.id", group, "auto.offset.reset", "earliest", "enable.auto.commit", false);
        if (!fetchBytes.equals("0")) {
            all.put("fetch.max.bytes", fetchBytes);
            all.put("max.partition.fetch.bytes", partitionBytes);
        }
        Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
        int seen = 0;
        try (var consumer = new KafkaConsumer<>(all, new ByteArrayDeserializer(), new ByteArrayDeserializer());
                BufferedWriter lines = Files.newBufferedWriter(out)) {
            consumer.subscribe(List.of(topic));
            long quiet = System.nanoTime();
            while (seen < count) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                    quiet = System.nanoTime();
                    if (seen == count) {
                        break;
                    }
                    seen++;
                    lines.write(JSON.writeValueAsString(row(record)));
                    lines.newLine();
                    next.put(new TopicPartition(topic, record.partition()), new OffsetAndMetadata(record.offset() + 1));
                }
                if (System.nanoTime() - quiet > 30_000_000_000L) {
                    throw new IllegalStateException("nothing more after " + seen + " of " + count + " records");
                }
            }
            consumer.commitSync(next);
        }
    }

    private static ObjectNode row(ConsumerRecord<byte[], byte[]> record) {
        ObjectNode row = JSON.createObjectNode().put("partition", record.partition()).put("offset", record.offset())
            .put("timestamp", record.timestamp()).put("key", text(record.key())).put("value", text(record.value()));
        ArrayNode headers = row.putArray("headers");
        for (Header each : record.headers()) {
            headers.addArray().add(each.key()).add(text(each.value()));
        }
        return row;
    }

    private static void offsets(TopicPartition where, List<String> timestamps) throws Exception {
        ArrayNode found = JSON.createArrayNode();
        try (Admin admin = Admin.create(settings())) {
            for (String each : timestamps) {
                OffsetSpec spec = switch (each) {
                    case "-1" -> OffsetSpec.latest();
                    case "-2" -> OffsetSpec.earliest();
                    case "-3" -> OffsetSpec.maxTimestamp();
                    case "-4" -> OffsetSpec.earliestLocal();
                    case "-5" -> OffsetSpec.latestTiered();
                    default -> OffsetSpec.forTimestamp(Long.parseLong(each));
                };
                long offset = admin.listOffsets(Map.of(where, spec)).partitionResult(where).get(30, TimeUnit.SECONDS).offset();
                if (offset < 0) {
                    found.addNull();
                } else {
                    found.add(offset);
                }
            }
        }
        System.out.println(JSON.writeValueAsString(found));
    }
}
