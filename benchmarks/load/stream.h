/* A client that stores and reads messages of streams; stream.c says more. */
#ifndef STREAM_H
#define STREAM_H

#include "load.h"

enum { BUFFER = 1 << 20, ROOM = 1 << 20 };
enum { ANSWERS = 1, ACKS, HEARTBEATS, DELIVERIES }; /* subscription ids */

/* A message that came; every pointer is into the buffer of the session and holds until the next one is read. */
struct message {
    int sid;
    const char *subject, *reply, *body; /* with a block of headers, the body begins with that */
    size_t replyLength, bodyLength;
};

struct session {
    struct link link;
    char *in, *out, inbox[64], clientID[64], subject[128], subscribe[128], close[128];
    size_t have, at;
    long asked;
    bool streaming; /* NATS Streaming, not JetStream */
};

void enterSession(struct session *me);                      /* connect, and listen for answers */
void sendPublication(struct session *me, const char *subject, const char *reply, const char *body, size_t length);
void sendHeaders(struct session *me, const char *subject, const char *reply, const char *headers, const char *body, size_t length);
bool takeMessage(struct session *me, struct message *message); /* out of the buffer, if a whole one is there */
void readMore(struct session *me);
struct message awaitMessage(struct session *me, int sid);   /* the next one with sid, or with any that is not 0 */
struct message ask(struct session *me, const char *subject, const char *body, size_t length);
struct message askHeaders(struct session *me, const char *subject, const char *headers, const char *body, size_t length);
void checkJson(struct message answer);                      /* that it is no error */
bool hasText(struct message message, const char *text);

/* keys.c: messages of --size bytes on the subjects "load.NUMBER" of the stream LOAD, which has a subject "load.>". */
void storeMessages(struct session *me, long count, long subjects);
void checkStored(const struct message *message);

/* Another client, which asks for PONG all the time. */
void startPinging(void);
long stopPinging(uint32_t **sorted);                        /* how many samples there are, in units of 10 ns */

#endif
