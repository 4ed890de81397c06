/*
 * What the interop tests do with the NATS client for C: scenarios SCENARIO URL [CA].
 *
 * Every scenario prints one JSON object a line, the same as the programs for the other clients;
 * any surprise is an exit status other than 0.
 */

#include <ctype.h>
#include <errno.h>
#include <nats/nats.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PATIENCE = 20000 }; /* milliseconds */

static const char *url;
static const char *authority;

/* Leave with the library's explanation unless all is well. */
static void need(natsStatus status, const char *what)
{
    if (status == NATS_OK)
        return;
    fprintf(stderr, "%s: %s (%s)\n", what, natsStatus_GetText(status), nats_GetLastError(NULL));
    exit(1);
}

static void say(const char *line)
{
    puts(line);
    fflush(stdout);
}

/* Where the library's threads leave word: a count of what happened, and the last text. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int happened[2];
static char lastError[512];

static void happen(int which)
{
    pthread_mutex_lock(&lock);
    happened[which]++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* Wait until both counts together are at least this. */
static void await(int total)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE / 1000;
    pthread_mutex_lock(&lock);
    while (happened[0] + happened[1] < total) {
        if (pthread_cond_timedwait(&changed, &lock, &until) == ETIMEDOUT) {
            fprintf(stderr, "waited in vain for %d, got %d\n", total, happened[0] + happened[1]);
            exit(1);
        }
    }
    pthread_mutex_unlock(&lock);
}

static void onMessage(natsConnection *nc, natsSubscription *sub, natsMsg *msg, void *which)
{
    (void)nc, (void)sub;
    happen((int)(size_t)which);
    natsMsg_Destroy(msg);
}

static void onEvent(natsConnection *nc, void *line)
{
    (void)nc;
    if (line != NULL)
        say(line);
    else
        happen(0);
}

static void onError(natsConnection *nc, natsSubscription *sub, natsStatus status, void *closure)
{
    const char *text = NULL;
    (void)sub, (void)status, (void)closure;
    natsConnection_GetLastError(nc, &text);
    pthread_mutex_lock(&lock);
    snprintf(lastError, sizeof lastError, "%s", text != NULL ? text : "");
    for (char *c = lastError; *c != 0; c++)
        *c = (char)tolower((unsigned char)*c);
    pthread_mutex_unlock(&lock);
    happen(0);
}

static natsOptions *options(void)
{
    natsOptions *opts = NULL;
    need(natsOptions_Create(&opts), "options");
    need(natsOptions_SetURL(opts, url), "url");
    need(natsOptions_SetTimeout(opts, PATIENCE), "timeout");
    need(natsOptions_SetAllowReconnect(opts, false), "no reconnect");
    need(natsOptions_SetErrorHandler(opts, onError, NULL), "error handler");
    return opts;
}

static natsConnection *connectWith(natsOptions *opts)
{
    natsConnection *nc = NULL;
    need(natsConnection_Connect(&nc, opts), "connect");
    natsOptions_Destroy(opts);
    return nc;
}

static natsConnection *connected(void)
{
    return connectWith(options());
}

static natsSubscription *subscribed(natsConnection *nc, const char *subject)
{
    natsSubscription *sub = NULL;
    need(natsConnection_SubscribeSync(&sub, nc, subject), "subscribe");
    return sub;
}

static natsMsg *next(natsSubscription *sub)
{
    natsMsg *msg = NULL;
    need(natsSubscription_NextMsg(&msg, sub, PATIENCE), "next message");
    return msg;
}

static void scenarioConnect(void)
{
    natsConnection *nc = connected();
    uint64_t cid = 0;
    need(natsConnection_Flush(nc), "flush");
    need(natsConnection_GetClientID(nc, &cid), "client id");
    printf("{\"event\":\"connected\",\"max_payload\":%lld,\"cid\":%s}\n",
           (long long)natsConnection_GetMaxPayload(nc), cid > 0 ? "true" : "false");
    natsConnection_Close(nc);
    printf("{\"event\":\"closed\",\"closed\":%s}\n", natsConnection_IsClosed(nc) ? "true" : "false");
}

static void scenarioPublish(void)
{
    natsConnection *nc = connected();
    natsSubscription *subs[2] = {subscribed(nc, "data.*"), subscribed(nc, "data.>")};
    const int counts[2] = {4, 2};
    need(natsSubscription_AutoUnsubscribe(subs[1], 2), "auto unsubscribe");
    for (int number = 0; number < 4; number++) {
        char subject[16], data[4];
        snprintf(subject, sizeof subject, "data.%d", number);
        memset(data, '0' + number, 3);
        need(natsConnection_Publish(nc, subject, data, 3), "publish");
    }
    need(natsConnection_Flush(nc), "flush");
    for (int which = 0; which < 2; which++) {
        for (int count = 0; count < counts[which]; count++) {
            natsMsg *msg = next(subs[which]);
            printf("{\"subject\":\"%s\",\"data\":\"%.*s\"}\n", natsMsg_GetSubject(msg),
                   natsMsg_GetDataLength(msg), natsMsg_GetData(msg));
            natsMsg_Destroy(msg);
        }
    }
    need(natsSubscription_Unsubscribe(subs[0]), "unsubscribe");
    need(natsConnection_PublishString(nc, "data.9", "unheard"), "publish");
    need(natsConnection_Flush(nc), "flush");
    natsConnection_Close(nc);
}

static void answer(natsConnection *nc, natsSubscription *sub, natsMsg *msg, void *closure)
{
    char data[64];
    int length = natsMsg_GetDataLength(msg);
    (void)sub, (void)closure;
    for (int at = 0; at < length; at++)
        data[at] = (char)toupper((unsigned char)natsMsg_GetData(msg)[at]);
    need(natsConnection_Publish(nc, natsMsg_GetReply(msg), data, length), "answer");
    natsMsg_Destroy(msg);
}

static void scenarioRequest(void)
{
    natsConnection *service = connected(), *nc = connected();
    natsSubscription *sub = NULL;
    const char *texts[2] = {"hello", "again"};
    need(natsConnection_Subscribe(&sub, service, "svc.upper", answer, NULL), "service");
    need(natsConnection_Flush(service), "flush");
    for (int which = 0; which < 2; which++) {
        natsMsg *reply = NULL;
        need(natsConnection_RequestString(&reply, nc, "svc.upper", texts[which], PATIENCE),
             "request");
        printf("{\"reply\":\"%.*s\"}\n", natsMsg_GetDataLength(reply), natsMsg_GetData(reply));
        natsMsg_Destroy(reply);
    }
    natsConnection_Close(nc);
    natsConnection_Close(service);
}

static void publishWith(natsConnection *nc, const char *body, const char *pairs[][2], int count)
{
    natsMsg *msg = NULL;
    need(natsMsg_Create(&msg, "head", NULL, body, (int)strlen(body)), "message");
    for (int which = 0; which < count; which++)
        need(natsMsgHeader_Set(msg, pairs[which][0], pairs[which][1]), "header");
    need(natsConnection_PublishMsg(nc, msg), "publish");
    natsMsg_Destroy(msg);
}

static void sayHeaders(natsMsg *msg)
{
    static const char *const known[] = {"Bar", "Only", "Some-Key"};
    const char *separator = "", *value = NULL;
    printf("{\"data\":\"%.*s\",\"headers\":{", natsMsg_GetDataLength(msg), natsMsg_GetData(msg));
    for (size_t which = 0; which < sizeof known / sizeof *known; which++) {
        if (natsMsgHeader_Get(msg, known[which], &value) == NATS_OK) {
            printf("%s\"%s\":\"%s\"", separator, known[which], value);
            separator = ",";
        }
    }
    printf("}}\n");
}

static void scenarioHeaders(void)
{
    natsConnection *nc = connected();
    natsSubscription *sub = subscribed(nc, "head");
    const char *two[][2] = {{"Bar", "Baz"}, {"Some-Key", "a: b"}}, *one[][2] = {{"Only", "headers"}};
    publishWith(nc, "body", two, 2);
    publishWith(nc, "", one, 1);
    need(natsConnection_PublishString(nc, "head", "plain"), "publish");
    for (int count = 0; count < 3; count++) {
        natsMsg *msg = next(sub);
        sayHeaders(msg);
        natsMsg_Destroy(msg);
    }
    natsConnection_Close(nc);
}

static void scenarioQueue(void)
{
    natsConnection *members[2] = {connected(), connected()}, *publisher = connected();
    natsSubscription *subs[2];
    for (size_t which = 0; which < 2; which++) {
        need(natsConnection_QueueSubscribe(&subs[which], members[which], "work", "workers",
                                           onMessage, (void *)which),
             "queue subscribe");
        need(natsConnection_Flush(members[which]), "flush");
    }
    for (int count = 0; count < 200; count++)
        need(natsConnection_PublishString(publisher, "work", "x"), "publish");
    need(natsConnection_Flush(publisher), "flush");
    await(200);
    printf("{\"total\":%d,\"shared\":%s}\n", happened[0] + happened[1],
           happened[0] > 0 && happened[1] > 0 ? "true" : "false");
    natsConnection_Close(members[0]);
    natsConnection_Close(members[1]);
    natsConnection_Close(publisher);
}

static void scenarioNobody(void)
{
    natsConnection *nc = connected();
    natsMsg *reply = NULL;
    natsStatus status = natsConnection_RequestString(&reply, nc, "nobody.there", "?", PATIENCE);
    if (status == NATS_NO_RESPONDERS)
        say("{\"error\":\"no responders\"}");
    else
        need(status == NATS_OK ? NATS_ERR : status, "no responders expected");
    natsConnection_Close(nc);
}

static void slowly(natsConnection *nc, natsSubscription *sub, natsMsg *msg, void *closure)
{
    (void)nc, (void)sub, (void)closure;
    nats_Sleep(1);
    natsMsg_Destroy(msg);
    pthread_mutex_lock(&lock);
    happened[1]++;
    pthread_mutex_unlock(&lock);
}

static void scenarioDrain(void)
{
    natsOptions *opts = options();
    natsSubscription *sub = NULL;
    natsConnection *nc;
    need(natsOptions_SetClosedCB(opts, onEvent, NULL), "closed callback");
    nc = connectWith(opts);
    need(natsConnection_Subscribe(&sub, nc, "drain", slowly, NULL), "subscribe");
    for (int count = 0; count < 50; count++)
        need(natsConnection_PublishString(nc, "drain", "x"), "publish");
    need(natsConnection_DrainTimeout(nc, PATIENCE), "drain");
    await(51); /* fifty messages and the close */
    printf("{\"received\":%d,\"closed\":%s}\n", happened[1],
           natsConnection_IsClosed(nc) ? "true" : "false");
}

static void scenarioReconnect(void)
{
    natsOptions *opts = options();
    natsSubscription *sub;
    natsConnection *nc;
    natsMsg *msg;
    need(natsOptions_SetAllowReconnect(opts, true), "reconnect");
    need(natsOptions_SetReconnectWait(opts, 100), "reconnect wait");
    need(natsOptions_SetReconnectJitter(opts, 10, 10), "reconnect jitter");
    need(natsOptions_SetMaxReconnect(opts, -1), "reconnect count");
    need(natsOptions_SetDisconnectedCB(opts, onEvent, "{\"event\":\"disconnected\"}"), "callback");
    need(natsOptions_SetReconnectedCB(opts, onEvent, NULL), "callback");
    nc = connectWith(opts);
    sub = subscribed(nc, "again");
    need(natsConnection_Flush(nc), "flush");
    say("{\"event\":\"ready\"}");
    await(1);
    need(natsConnection_PublishString(nc, "again", "still here"), "publish");
    msg = next(sub);
    printf("{\"event\":\"reconnected\",\"data\":\"%.*s\"}\n", natsMsg_GetDataLength(msg),
           natsMsg_GetData(msg));
    natsMsg_Destroy(msg);
    fflush(stdout);
    exit(0); /* closing would say "disconnected" once more */
}

static void scenarioPayload(void)
{
    natsConnection *nc = connected();
    natsSubscription *sub = subscribed(nc, "big");
    int most = (int)natsConnection_GetMaxPayload(nc);
    char *data = calloc(1, (size_t)most + 1);
    natsMsg *msg;
    if (natsConnection_Publish(nc, "big", data, most + 1) == NATS_MAX_PAYLOAD)
        say("{\"error\":\"max payload\"}");
    need(natsConnection_Publish(nc, "big", data, most), "publish");
    msg = next(sub);
    printf("{\"size\":%d}\n", natsMsg_GetDataLength(msg));
    natsMsg_Destroy(msg);
    free(data);
    natsConnection_Close(nc);
}

static void scenarioLogin(void)
{
    natsOptions *opts = options();
    natsConnection *nc = NULL;
    natsStatus status = natsConnection_Connect(&nc, opts);
    natsOptions_Destroy(opts);
    if (status != NATS_OK) {
        printf("{\"refused\":%s}\n", status == NATS_CONNECTION_AUTH_FAILED ? "true" : "false");
        return;
    }
    need(natsConnection_Flush(nc), "flush");
    say("{\"event\":\"connected\"}");
    natsConnection_Close(nc);
}

static void sayViolation(int count, const char *text)
{
    await(count);
    pthread_mutex_lock(&lock);
    printf("{\"violation\":%s}\n", strstr(lastError, text) != NULL ? "true" : "false");
    pthread_mutex_unlock(&lock);
}

static void scenarioPermissions(void)
{
    natsConnection *nc = connected();
    natsSubscription *sub;
    natsMsg *msg;
    need(natsConnection_PublishString(nc, "denied", "x"), "publish");
    need(natsConnection_Flush(nc), "flush");
    sayViolation(1, "permissions violation for publish");
    subscribed(nc, "denied");
    need(natsConnection_Flush(nc), "flush");
    sayViolation(2, "permissions violation for subscription");
    sub = subscribed(nc, "allowed");
    need(natsConnection_PublishString(nc, "allowed", "y"), "publish");
    msg = next(sub);
    printf("{\"data\":\"%.*s\"}\n", natsMsg_GetDataLength(msg), natsMsg_GetData(msg));
    natsMsg_Destroy(msg);
    natsConnection_Close(nc);
}

static natsOptions *secureOptions(void)
{
    natsOptions *opts = options();
    need(natsOptions_SetSecure(opts, true), "secure");
    need(natsOptions_SetExpectedHostname(opts, "localhost"), "host name");
    return opts;
}

static void scenarioTls(void)
{
    static char data[100000];
    natsOptions *opts = secureOptions();
    natsConnection *nc, *refused = NULL;
    natsSubscription *sub;
    natsMsg *msg;
    need(natsOptions_LoadCATrustedCertificates(opts, authority), "authority");
    nc = connectWith(opts);
    sub = subscribed(nc, "secret");
    need(natsConnection_Publish(nc, "secret", data, sizeof data), "publish");
    msg = next(sub);
    printf("{\"size\":%d}\n", natsMsg_GetDataLength(msg));
    natsMsg_Destroy(msg);
    natsConnection_Close(nc);
    if (natsConnection_Connect(&refused, secureOptions()) != NATS_OK)
        say("{\"refused\":true}");
}

static const struct {
    const char *name;
    void (*run)(void);
} scenarios[] = {
    {"connect", scenarioConnect},     {"publish", scenarioPublish},
    {"request", scenarioRequest},     {"headers", scenarioHeaders},
    {"queue", scenarioQueue},         {"nobody", scenarioNobody},
    {"drain", scenarioDrain},         {"reconnect", scenarioReconnect},
    {"payload", scenarioPayload},     {"login", scenarioLogin},
    {"permissions", scenarioPermissions}, {"tls", scenarioTls},
};

int main(int count, char **arguments)
{
    if (count < 3)
        return 2;
    url = arguments[2];
    authority = count > 3 ? arguments[3] : NULL;
    for (size_t which = 0; which < sizeof scenarios / sizeof *scenarios; which++) {
        if (strcmp(scenarios[which].name, arguments[1]) == 0) {
            scenarios[which].run();
            return 0;
        }
    }
    return 2;
}
