/* load produce: sends `--messages` records (or as many as fit in `--seconds`) and waits for every acknowledgement.
 *   --partitions N --size BYTES --payload random|json --codec none|lz4|… --acks -1|0|1 --linger MS --rate BYTES_PER_S --producers N
 *   --keys N: so many different keys (none without) */
#include "client.h"

#include "common.h"
#include "payload.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Records handed over in one call, all to one partition: as a sticky partitioner does, with less locking in the client. */
enum { CHUNK = 64 };

/* Nobody sends before everybody is connected: the clock shows sending, by all of them. */
static pthread_barrier_t all_connected;

struct run {
  int64_t messages, sent, failed, seconds, keys;
  double started, ended;
  size_t size;
  int32_t partitions, first_partition;
  double bytes_per_s;
  char failure[256];
};

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
  (void)client;
  struct run *run = opaque;
  if (!message->err) return;
  if (!run->failed++) snprintf(run->failure, sizeof run->failure, "%s", rd_kafka_err2str(message->err));
}

static rd_kafka_t *connect_producer(struct run *run) {
  rd_kafka_conf_t *conf = rd_kafka_conf_new();
  client_set(conf, "compression.codec", option("codec", "none"));
  client_set(conf, "linger.ms", option("linger", "5"));
  client_set(conf, "acks", option("acks", "-1"));
  client_set(conf, "enable.idempotence", option("idempotent", "false"));
  client_set(conf, "queue.buffering.max.messages", "1000000");
  client_set(conf, "queue.buffering.max.kbytes", "262144");
  client_set(conf, "delivery.timeout.ms", "60000");
  /* A report for each success would cost the client more than sending; what was not reported as failed when the queue is
   * empty has been acknowledged. */
  client_set(conf, "delivery.report.only.error", "true");
  rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
  rd_kafka_conf_set_opaque(conf, run);
  return client_new(RD_KAFKA_PRODUCER, conf);
}

/* One call; the client blocks while its queue is full. */
static void send_chunk(rd_kafka_topic_t *topic, struct run *run, int32_t partition, int count) {
  rd_kafka_message_t chunk[CHUNK];
  char keys[CHUNK][24];
  memset(chunk, 0, sizeof chunk);
  for (int i = 0; i < count; i++) {
    chunk[i].payload = payload_of((uint64_t)(run->sent + i));
    chunk[i].len = run->size;
    if (run->keys > 0) {
      /* Each key once in a cycle, in an order that is not theirs. */
      uint64_t key = (uint64_t)(run->sent + i) % (uint64_t)run->keys * 0x9E3779B97F4A7C15u;
      chunk[i].key = keys[i];
      chunk[i].key_len = (size_t)snprintf(keys[i], sizeof keys[i], "%016lx", (unsigned long)key);
    }
  }
  if (rd_kafka_produce_batch(topic, partition, RD_KAFKA_MSG_F_BLOCK, chunk, count) != count)
    for (int i = 0; i < count; i++)
      if (chunk[i].err && !run->failed++) snprintf(run->failure, sizeof run->failure, "%s", rd_kafka_err2str(chunk[i].err));
  run->sent += count;
}

static void *produce_one(void *argument) {
  struct run *run = argument;
  rd_kafka_t *client = connect_producer(run);
  rd_kafka_topic_t *topic = rd_kafka_topic_new(client, option("topic", "bench"), NULL);
  const struct rd_kafka_metadata *metadata;
  rd_kafka_resp_err_t error = rd_kafka_metadata(client, 0, topic, &metadata, 30000);
  if (error) die("metadata: %s", rd_kafka_err2str(error));
  rd_kafka_metadata_destroy(metadata);
  int32_t partition = run->first_partition % run->partitions;
  pthread_barrier_wait(&all_connected);
  run->started = now_s();
  while (run->sent < run->messages && !run->failed && (run->seconds == 0 || now_s() < run->started + (double)run->seconds)) {
    int64_t left = run->messages - run->sent;
    send_chunk(topic, run, partition, left < CHUNK ? (int)left : CHUNK);
    partition = (partition + 1) % run->partitions;
    rd_kafka_poll(client, 0);
    if (run->bytes_per_s > 0) sleep_until(run->started + (double)run->sent * (double)run->size / run->bytes_per_s);
  }
  error = rd_kafka_flush(client, 60000);
  if (error) die("flush: %s, %d without an answer", rd_kafka_err2str(error), rd_kafka_outq_len(client));
  if (run->failed) die("produce: %ld of %ld failed: %s", (long)run->failed, (long)run->sent, run->failure);
  run->ended = now_s();
  rd_kafka_topic_destroy(topic);
  rd_kafka_destroy(client);
  return NULL;
}

void produce(void) {
  int64_t producers = option_number("producers", 1), seconds = option_number("seconds", 0);
  int64_t messages = option_number("messages", seconds ? INT64_MAX / 2 : 100000);
  size_t size = (size_t)option_number("size", 1024);
  if (producers < 1 || producers > 1024) die("--producers: 1 to 1024");
  payload_init(option("payload", "random"), size);
  struct run *runs = calloc((size_t)producers, sizeof *runs);
  pthread_t *threads = calloc((size_t)producers, sizeof *threads);
  if (!runs || !threads) die("no memory");
  if (pthread_barrier_init(&all_connected, NULL, (unsigned)producers)) die("no barrier");
  double cpu = cpu_s();
  for (int i = 0; i < producers; i++) {
    runs[i] = (struct run){.messages = messages / producers + (i < messages % producers),
                           .seconds = seconds, .size = size,
                           .partitions = (int32_t)option_number("partitions", 1), .first_partition = i,
                           .keys = option_number("keys", 0), .bytes_per_s = (double)option_number("rate", 0) / (double)producers};
    if (pthread_create(&threads[i], NULL, produce_one, &runs[i])) die("no thread");
  }
  int64_t sent = 0;
  double started = 0, ended = 0;
  for (int i = 0; i < producers; i++) {
    pthread_join(threads[i], NULL);
    if (i == 0 || runs[i].started < started) started = runs[i].started;
    if (runs[i].ended > ended) ended = runs[i].ended;
    sent += runs[i].sent;
  }
  printf("{\"messages\":%ld,\"bytes\":%ld,\"seconds\":%.6f,\"ended_at\":%.6f,\"client_cpu_s\":%.6f}\n", (long)sent,
         (long)sent * (long)size, ended - started, ended, cpu_s() - cpu);
}
