/* load: a lean NATS load generator. Reads its command line, runs one mode, prints one line of JSON. */
#define _GNU_SOURCE
#include "load.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

struct options opt = {
    .mode = "traffic", .host = "127.0.0.1", .port = 4222,
    .publishers = 1, .subscribers = 0, .size = 128, .subjects = 1, .inFlight = 1,
    .connections = 2000, .window = 1000, .established = 0,
    .timeout = 30, .writeSize = 64 << 10, .readSize = 256 << 10, .seconds = 1.0,
};

static const char usage[] =
    "usage: load --mode MODE [options]\n"
    "  traffic        publish as fast as the server takes it, count what subscribers receive\n"
    "  request        request/reply round trips, --in-flight requesters with one outstanding each\n"
    "  idle           open --connections, print a line, keep them until stdin ends\n"
    "  subscriptions  the same with --count subscriptions spread over --connections\n"
    "  storm          open --connections as fast as they are served, then check that each one answers\n"
    "  stalled        --connections subscribers that never read, one that does, and a publisher\n"
    "  mirror         a stand-in server that only copies: what the generator itself can reach\n"
    "  relay          a server in one thread that finds frames and copies them: what such a server can reach\n"
    "  store          publish to a stream, --window unacknowledged at most, while another client sends PING\n"
    "  replay         store --count messages, then have them delivered to one subscriber that acknowledges\n"
    "  answer         connect to the stream that is there, and end\n"
    "  put            --publishers store messages on --subjects subjects of a key-value bucket, one in flight each\n"
    "  get            direct gets of the last message of a subject, or with --wild by sequence, --in-flight at a time\n"
    "  batch          direct gets of --window messages each\n"
    "  ordered        replay to an ordered consumer, or with --wild to one with a filter, while another client sends PING\n"
    "  assets         make --connections streams and --count consumers, print a line, keep them until stdin ends\n"
    "  operate        --in-flight clients that do --operation, one after the other; operate.c has the table of operations\n"
    "  sparse         --connections clients that publish once a second each, to one subscriber\n"
    "where: --host A --port N --user U --password P --tls --websocket --timeout SECONDS --server-pid N\n"
    "       --far-port N --far-pid N (a second server, linked with the first: subscribers and responders go there)\n"
    "load:  --operation NAME --seconds S or --count N, --publishers N --subscribers N --fanout --queue NAME --wild\n"
    "       --subjects N --size BYTES --headers --others N --warmup S --write-size N --read-size N\n"
    "crowd: --connections N --window N (handshakes at a time) --established N (pinged during a storm)\n";

enum { HELP = 1000, MODE, OPERATION, HOST, PORT, USER, PASSWORD, TLS, WEBSOCKET, TIMEOUT, SERVER_PID, FAR_PORT, FAR_PID, SECONDS, COUNT, PUBLISHERS, SUBSCRIBERS,
       FANOUT, QUEUE, WILD, SUBJECTS, SIZE, HEADERS, OTHERS, WARMUP, WRITE_SIZE, READ_SIZE, IN_FLIGHT, CONNECTIONS,
       WINDOW, ESTABLISHED };

static const struct option table[] = {
    {"help", 0, 0, HELP}, {"mode", 1, 0, MODE}, {"operation", 1, 0, OPERATION}, {"host", 1, 0, HOST}, {"port", 1, 0, PORT}, {"user", 1, 0, USER},
    {"password", 1, 0, PASSWORD}, {"tls", 0, 0, TLS}, {"websocket", 0, 0, WEBSOCKET},
    {"timeout", 1, 0, TIMEOUT}, {"server-pid", 1, 0, SERVER_PID},
    {"far-port", 1, 0, FAR_PORT}, {"far-pid", 1, 0, FAR_PID},
    {"seconds", 1, 0, SECONDS}, {"count", 1, 0, COUNT}, {"publishers", 1, 0, PUBLISHERS},
    {"subscribers", 1, 0, SUBSCRIBERS}, {"fanout", 0, 0, FANOUT}, {"queue", 1, 0, QUEUE}, {"wild", 0, 0, WILD},
    {"subjects", 1, 0, SUBJECTS}, {"size", 1, 0, SIZE}, {"headers", 0, 0, HEADERS}, {"others", 1, 0, OTHERS},
    {"warmup", 1, 0, WARMUP}, {"write-size", 1, 0, WRITE_SIZE}, {"read-size", 1, 0, READ_SIZE},
    {"in-flight", 1, 0, IN_FLIGHT}, {"connections", 1, 0, CONNECTIONS}, {"window", 1, 0, WINDOW},
    {"established", 1, 0, ESTABLISHED}, {0},
};

static long number(const char *text, long least, long most) {
    char *end;
    long value = strtol(text, &end, 10);
    if (*end || end == text || value < least || value > most)
        fail("%s: a whole number from %ld to %ld is needed", text, least, most);
    return value;
}

static double duration(const char *text) {
    char *end;
    double value = strtod(text, &end);
    if (*end || end == text || !(value >= 0 && value <= 3600)) fail("%s: seconds from 0 to 3600 are needed", text);
    return value;
}

static void readOptions(int argc, char **argv) {
    for (int c; (c = getopt_long(argc, argv, "", table, NULL)) != -1;) switch (c) {
        case HELP: fputs(usage, stdout); exit(0);
        case MODE: opt.mode = optarg; break;
        case OPERATION: opt.operation = optarg; break;
        case HOST: opt.host = optarg; break;
        case PORT: opt.port = (int) number(optarg, 0, 65535); break;
        case USER: opt.user = optarg; break;
        case PASSWORD: opt.password = optarg; break;
        case TLS: opt.tls = true; break;
        case WEBSOCKET: opt.websocket = true; break;
        case TIMEOUT: opt.timeout = (int) number(optarg, 1, 3600); break;
        case SERVER_PID: opt.serverPid = (int) number(optarg, 1, 1L << 30); break;
        case FAR_PORT: opt.farPort = (int) number(optarg, 1, 65535); break;
        case FAR_PID: opt.farPid = (int) number(optarg, 1, 1L << 30); break;
        case SECONDS: opt.seconds = duration(optarg); break;
        case COUNT: opt.count = number(optarg, 1, 1L << 40); break;
        case PUBLISHERS: opt.publishers = (int) number(optarg, 1, 1000); break;
        case SUBSCRIBERS: opt.subscribers = (int) number(optarg, 0, 1000); break;
        case FANOUT: opt.fanout = true; break;
        case QUEUE: opt.queue = optarg; break;
        case WILD: opt.wild = true; break;
        case SUBJECTS: opt.subjects = (int) number(optarg, 1, 1000000); break;
        case SIZE: opt.size = (int) number(optarg, 1, 64 << 20); break;
        case HEADERS: opt.headers = true; break;
        case OTHERS: opt.others = (int) number(optarg, 0, 10000000); break;
        case WARMUP: opt.warmup = duration(optarg); break;
        case WRITE_SIZE: opt.writeSize = (int) number(optarg, 1, 64 << 20); break;
        case READ_SIZE: opt.readSize = (int) number(optarg, 512, 64 << 20); break;
        case IN_FLIGHT: opt.inFlight = (int) number(optarg, 1, 10000); break;
        case CONNECTIONS: opt.connections = (int) number(optarg, 1, 1000000); break;
        case WINDOW: opt.window = (int) number(optarg, 1, 1000000); break;
        case ESTABLISHED: opt.established = (int) number(optarg, 0, 10000); break;
        default: fputs(usage, stderr); exit(1);
    }
    if (optind != argc) fail("%s: what is this?", argv[optind]);
}

static void raiseDescriptorLimit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit)) return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv) {
    static const struct { const char *name; void (*run)(void); } modes[] = {
        {"traffic", runTraffic}, {"request", runRequests}, {"idle", runIdle}, {"subscriptions", runSubscriptions},
        {"storm", runStorm}, {"stalled", runStalled}, {"mirror", runMirror}, {"relay", runRelay},
        {"store", runStore}, {"replay", runReplay}, {"answer", runAnswer},
        {"put", runPut}, {"get", runGet}, {"batch", runBatch}, {"ordered", runOrdered}, {"assets", runAssets},
        {"operate", runOperations}, {"sparse", runSparse},
    };
    readOptions(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    raiseDescriptorLimit();
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(modes[i].name, opt.mode)) {
            modes[i].run();
            fflush(stdout);
            _Exit(0); /* threads may still be reading */
        }
    fputs(usage, stderr);
    return 1;
}
