/*
 * What the interop tests do with the JetStream of the NATS client for C: jetstream SCENARIO URL.
 *
 * Every scenario prints one JSON object a line, the same as the program for JavaScript; any
 * surprise is an exit status other than 0.
 */

#include <nats/nats.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATIENCE = 20000 }; /* milliseconds */

static natsConnection *connection;
static jsCtx *js;

/* Leave with the library's explanation unless all is well. */
static void need(natsStatus status, const char *what)
{
    if (status == NATS_OK)
        return;
    fprintf(stderr, "%s: %s (%s)\n", what, natsStatus_GetText(status), nats_GetLastError(NULL));
    exit(1);
}

static void makeStream(void)
{
    const char *subjects[] = {"s.>"};
    jsStreamConfig config;
    need(jsStreamConfig_Init(&config), "stream config");
    config.Name = "S";
    config.Subjects = subjects;
    config.SubjectsLen = 1;
    need(js_AddStream(NULL, js, &config, NULL, NULL), "add stream");
}

static void publish(const char *subject, const char *text, const char *id)
{
    jsPubAck *ack = NULL;
    jsPubOptions options;
    need(jsPubOptions_Init(&options), "publish options");
    options.MsgId = id;
    need(js_Publish(&ack, js, subject, text, (int)strlen(text), &options, NULL), "publish");
    printf("{\"stream\":\"%s\",\"seq\":%d,\"duplicate\":%s}\n", ack->Stream, (int)ack->Sequence,
           ack->Duplicate ? "true" : "false");
    jsPubAck_Destroy(ack);
}

static void fill(void)
{
    makeStream();
    publish("s.a", "zero", "id");
    publish("s.a", "zero", "id");
    publish("s.b", "one", NULL);
    publish("s.a", "two", NULL);
}

static void show(natsMsg *msg)
{
    jsMsgMetaData *meta = NULL;
    need(natsMsg_GetMetaData(&meta, msg), "metadata");
    printf("{\"data\":\"%.*s\",\"seq\":%d,\"delivered\":%d}\n", natsMsg_GetDataLength(msg),
           natsMsg_GetData(msg), (int)meta->Sequence.Stream, (int)meta->NumDelivered);
    jsMsgMetaData_Destroy(meta);
}

static void scenarioPull(void)
{
    natsSubscription *sub = NULL;
    natsMsgList list;
    jsConsumerInfo *info = NULL;
    fill();
    need(js_PullSubscribe(&sub, js, "s.a", "puller", NULL, NULL, NULL), "pull subscribe");
    need(natsSubscription_Fetch(&list, sub, 2, PATIENCE, NULL), "fetch");
    for (int each = 0; each < list.Count; each++)
        show(list.Msgs[each]);
    need(natsMsg_AckSync(list.Msgs[0], NULL, NULL), "ack");
    need(natsMsg_Nak(list.Msgs[1], NULL), "nak");
    natsMsgList_Destroy(&list);
    need(natsSubscription_Fetch(&list, sub, 1, PATIENCE, NULL), "fetch again");
    show(list.Msgs[0]);
    need(natsMsg_AckSync(list.Msgs[0], NULL, NULL), "ack");
    natsMsgList_Destroy(&list);
    need(js_GetConsumerInfo(&info, js, "S", "puller", NULL, NULL), "consumer info");
    printf("{\"pending\":%d,\"unacked\":%d,\"floor\":%d}\n", (int)info->NumPending,
           (int)info->NumAckPending, (int)info->AckFloor.Stream);
    jsConsumerInfo_Destroy(info);
    natsSubscription_Destroy(sub);
}

static void take(natsSubscription *sub, int count)
{
    natsMsg *msg = NULL;
    while (count-- > 0) {
        need(natsSubscription_NextMsg(&msg, sub, PATIENCE), "next message");
        show(msg);
        natsMsg_Destroy(msg);
    }
}

static void scenarioOrdered(void)
{
    natsSubscription *sub = NULL;
    jsSubOptions options;
    fill();
    need(jsSubOptions_Init(&options), "subscribe options");
    options.Ordered = true;
    need(js_SubscribeSync(&sub, js, "s.>", NULL, &options, NULL), "subscribe");
    take(sub, 3);
    publish("s.c", "later", NULL);
    take(sub, 1);
    natsSubscription_Destroy(sub);
}

static void showEntry(kvEntry *entry)
{
    printf("{\"key\":\"%s\",\"value\":\"%.*s\",\"revision\":%d}\n", kvEntry_Key(entry),
           kvEntry_ValueLen(entry), (const char *)kvEntry_Value(entry),
           (int)kvEntry_Revision(entry));
}

static void showNext(kvWatcher *watcher)
{
    kvEntry *entry = NULL;
    need(kvWatcher_Next(&entry, watcher, PATIENCE), "next entry");
    showEntry(entry);
    kvEntry_Destroy(entry);
}

static void put(kvStore *bucket, const char *key, const char *value)
{
    uint64_t revision = 0;
    need(kvStore_PutString(&revision, bucket, key, value), "put");
    printf("{\"revision\":%d}\n", (int)revision);
}

static void scenarioKeys(void)
{
    kvStore *bucket = NULL;
    kvConfig config;
    kvEntry *entry = NULL;
    kvEntryList history;
    kvKeysList keys;
    kvWatcher *watcher = NULL;
    need(kvConfig_Init(&config), "bucket config");
    config.Bucket = "B";
    config.History = 2;
    need(js_CreateKeyValue(&bucket, js, &config), "create bucket");
    put(bucket, "a", "1");
    put(bucket, "a", "2");
    put(bucket, "a", "3");
    need(kvStore_Get(&entry, bucket, "a"), "get");
    showEntry(entry);
    kvEntry_Destroy(entry);
    printf("{\"refused\":%s}\n",
           kvStore_UpdateString(NULL, bucket, "a", "4", 1) == NATS_OK ? "false" : "true");
    need(kvStore_History(&history, bucket, "a", NULL), "history");
    for (int each = 0; each < history.Count; each++)
        showEntry(history.Entries[each]);
    kvEntryList_Destroy(&history);
    put(bucket, "b", "5");
    need(kvStore_Delete(bucket, "a"), "delete");
    need(kvStore_Keys(&keys, bucket, NULL), "keys");
    for (int each = 0; each < keys.Count; each++)
        printf("{\"key\":\"%s\"}\n", keys.Keys[each]);
    kvKeysList_Destroy(&keys);
    need(kvStore_Watch(&watcher, bucket, "b", NULL), "watch");
    showNext(watcher);
    need(kvWatcher_Next(&entry, watcher, PATIENCE), "end of what is there");
    put(bucket, "b", "6");
    showNext(watcher);
    kvWatcher_Destroy(watcher);
    kvStore_Destroy(bucket);
}

static const struct {
    const char *name;
    void (*run)(void);
} scenarios[] = {
    {"pull", scenarioPull},
    {"ordered", scenarioOrdered},
    {"keys", scenarioKeys},
};

int main(int count, char **arguments)
{
    jsOptions options;
    if (count < 3)
        return 2;
    need(natsConnection_ConnectTo(&connection, arguments[2]), "connect");
    need(jsOptions_Init(&options), "options");
    options.Wait = PATIENCE;
    need(natsConnection_JetStream(&js, connection, &options), "context");
    for (size_t which = 0; which < sizeof scenarios / sizeof *scenarios; which++) {
        if (strcmp(scenarios[which].name, arguments[1]) == 0) {
            scenarios[which].run();
            fflush(stdout);
            jsCtx_Destroy(js);
            natsConnection_Destroy(connection);
            return 0;
        }
    }
    return 2;
}
