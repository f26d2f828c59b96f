/* load produce|consume --brokers HOST:PORT --topic NAME --partitions N …: the load generator of the benchmarks, a thin layer over
 * librdkafka that spends as little CPU as a client can, so that on a small machine the broker is what is measured. */
#include "client.h"

#include "common.h"

#include <stdlib.h>
#include <string.h>

static void on_log(const rd_kafka_t *client, int level, const char *facility, const char *text) {
  (void)client;
  if (level <= 3) die("librdkafka %s: %s", facility, text);
}

void client_set(rd_kafka_conf_t *conf, const char *name, const char *value) {
  char why[256];
  if (rd_kafka_conf_set(conf, name, value, why, sizeof why) != RD_KAFKA_CONF_OK) die("%s=%s: %s", name, value, why);
}

rd_kafka_t *client_new(rd_kafka_type_t type, rd_kafka_conf_t *conf) {
  client_set(conf, "bootstrap.servers", option("brokers", "127.0.0.1:9092"));
  client_set(conf, "client.id", "strandline-bench");
  rd_kafka_conf_set_log_cb(conf, on_log);
  const char *pair;
  for (int at = 0; (pair = option_property(&at));) {
    char name[128];
    const char *equals = strchr(pair, '=');
    if (!equals || (size_t)(equals - pair) >= sizeof name) die("--property %s: not key=value", pair);
    memcpy(name, pair, (size_t)(equals - pair));
    name[equals - pair] = 0;
    client_set(conf, name, equals + 1);
  }
  char why[512];
  rd_kafka_t *client = rd_kafka_new(type, conf, why, sizeof why);
  if (!client) die("client: %s", why);
  return client;
}

int main(int argc, char **argv) {
  options_init(argc, argv);
  limit_seconds(option_number("limit", 120));
  if (argc > 1 && strcmp(argv[1], "produce") == 0)
    produce();
  else if (argc > 1 && strcmp(argv[1], "consume") == 0)
    consume();
  else if (argc > 1 && strcmp(argv[1], "version") == 0)
    die("%s", rd_kafka_version_str());
  else
    die("usage: load produce|consume|version --brokers HOST:PORT --topic NAME [--option value]...");
  return 0;
}
