/**
 * The names of keys and channels in Redis, and the scripts that run there. The braces in `fence` are a hash tag: the fence
 * is in the slot of its lease.
 */
import { invalid } from '../../core/errors.ts'
import { requireShortText } from '../../core/input.ts'

export const PREFIX_DEFAULT = 'poll'
const PREFIX_BYTES_MAX = 64
/** Nothing that is special in a pattern of SCAN or in a hash tag. */
const PREFIX_PATTERN = /^[^*?[\]\\{}]+$/

/** Of an instance: its heartbeat, weight, name, TTL, and whether it is drained. */
export const NODE_KEYS = ['node', 'weight', 'name', 'ttl', 'drain'] as const
type KeyKind = (typeof NODE_KEYS)[number] | 'lease' | 'fence' | 'given' | 'known'

export class PollKeys {
  readonly prefix: string

  constructor(prefix: unknown) {
    const text = requireShortText({ field: 'prefix', bytesMax: PREFIX_BYTES_MAX }, prefix)
    if (!PREFIX_PATTERN.test(text)) throw invalid('prefix', 'must be without *?[]\\{}', text)
    this.prefix = text
  }

  /** The key of a session or an instance; `ttl` is that of its leases, in ms. */
  of(kind: KeyKind, id: string): string {
    return `${this.prefix}:${kind}:${id}`
  }

  fence(sessionId: string): string {
    return this.of('fence', `{${this.of('lease', sessionId)}}`)
  }

  /** The set of our own instances. */
  get nodes(): string {
    return `${this.prefix}:nodes`
  }

  /** The channel of an instance for sessions that are handed to it. */
  transfers(instanceId: string): string {
    return this.of('given', instanceId)
  }

  /** The channel for all instances: an instance has joined or left. */
  get changed(): string {
    return `${this.prefix}:changed`
  }

  /** The run of the server to which the data belongs. */
  get run(): string {
    return `${this.prefix}:run`
  }

  /** Exists during the grace period after the server has lost data. */
  get lost(): string {
    return `${this.prefix}:lost`
  }

  /** The channel for data losses in one database: channels are shared by all databases of a server. */
  losses(database: string): string {
    return this.of('known', database)
  }

  /** What comes after `{prefix}:{kind}:`. */
  idIn(kind: KeyKind, key: string): string {
    return key.slice(this.of(kind, '').length)
  }
}

/**
 * KEYS: lease, fence, and except on a Cluster run and lost. ARGV: instance id, TTL in ms, TTL of the fence in ms, the
 * server's run id, 1 for a session that this instance owned until the server lost it. Returns `{1, fence}`;
 * `{2, fence}` if the key named this instance already, after a handover or a lost answer, and is granted anew;
 * `{0, owner, PTTL}`; `{3}` if the data is not that of this run, so that a handshake must come first; or `{4, PTTL}`
 * during the grace period.
 */
const ACQUIRE = `
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then return {0, owner, redis.call('PTTL', KEYS[1])} end
if KEYS[3] and redis.call('GET', KEYS[3]) ~= ARGV[4] then return {3} end
if KEYS[4] and not owner and ARGV[5] ~= '1' then
  local leftMs = redis.call('PTTL', KEYS[4])
  if leftMs > 0 then return {4, leftMs} end
end
local time = redis.call('TIME')
local fence = tonumber(time[1]) * 1000000 + tonumber(time[2])
local last = tonumber(redis.call('GET', KEYS[2]) or '0')
if fence <= last then fence = last + 1 end
local text = string.format('%.0f', fence)
redis.call('SET', KEYS[2], text, 'PX', ARGV[3])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {owner and 2 or 1, text}`

/** KEYS: leases. ARGV: instance id, TTL in ms. Conditional renew for each; returns 1 or 0 for each. */
const RENEW = `
local renewed = {}
for index, key in ipairs(KEYS) do
  if redis.call('GET', key) == ARGV[1] then
    renewed[index] = redis.call('PEXPIRE', key, ARGV[2])
  else
    renewed[index] = 0
  end
end
return renewed`

/**
 * KEYS: lease and fence of each. ARGV: instance id, then the fence of each. Conditional release for each; returns 1 or 0
 * for each. The fence is compared as well: a release whose answer was lost may be carried out late, when the
 * same instance has the session again, and must not end that.
 */
const RELEASE = `
local released = {}
for index = 1, #KEYS, 2 do
  local place = (index + 1) / 2
  local fence = redis.call('GET', KEYS[index + 1])
  local isOurs = redis.call('GET', KEYS[index]) == ARGV[1]
  if isOurs and (not fence or fence == ARGV[place + 1]) then
    released[place] = redis.call('DEL', KEYS[index])
  else
    released[place] = 0
  end
end
return released`

/**
 * KEYS: lease, fence. ARGV: sender, its fence, receiver, TTL in ms, channel of the receiver, message, channel of all, 1 to
 * assume that the receiver is subscribed. On the same conditions as a release. If the receiver is not subscribed, the
 * session is freed and all instances are notified. The TTL is short, so that the session is free again soon if the
 * receiver dies before it renews.
 */
const TRANSFER = `
local fence = redis.call('GET', KEYS[2])
if redis.call('GET', KEYS[1]) ~= ARGV[1] or (fence and fence ~= ARGV[2]) then return 0 end
if redis.call('PUBLISH', ARGV[5], ARGV[6]) > 0 or ARGV[8] == '1' then
  redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[4])
else
  redis.call('DEL', KEYS[1])
  redis.call('PUBLISH', ARGV[7], ARGV[1])
end
return 1`

/** KEYS: node, weight, name, TTL and drain of each instance. Returns PTTL, three texts or false, 1 or 0 for each. */
const NODES = `
local facts = {}
for index = 1, #KEYS, 5 do
  facts[index] = redis.call('PTTL', KEYS[index])
  for more = index + 1, index + 3 do facts[more] = redis.call('GET', KEYS[more]) end
  facts[index + 4] = redis.call('EXISTS', KEYS[index + 4])
end
return facts`

/**
 * The handshake. KEYS: run, lost. ARGV: the server's run id, the longest TTL of leases in ms, 1 for an instance that has
 * made a handshake before, the channel for losses. Returns 1 if data was lost, or may have been, and this is the first
 * instance to notice.
 *
 * `run` names the run of the server whose grants are in the data. It is missing after FLUSHALL and after a restart without
 * data, and names another run after a restart or a failover, which may have lost the last grants. Their holders may not
 * have heard of the loss, and work on until their local deadlines:
 *
 *  1. A polls a session; its last renewal was answered.
 *  2. The server loses everything. A hears nothing of it before its next renewal, or before its deadline if it is cut off.
 *  3. B finds the session free, and could take it while A still polls.
 *
 * So the first instance that notices sets `lost`. Until that key expires, after the longest TTL in the fleet, an instance
 * takes only sessions that it owned before the loss. The key holds the time of the loss, so that an instance that knows a
 * longer TTL can prolong it.
 */
const HANDSHAKE = `
local time = redis.call('TIME')
local nowMs = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local run = redis.call('GET', KEYS[1])
if run == ARGV[1] then
  local sinceMs = redis.call('GET', KEYS[2])
  if not sinceMs or ARGV[3] == '0' then return 0 end
  local leftMs = tonumber(sinceMs) + tonumber(ARGV[2]) - nowMs
  if leftMs > redis.call('PTTL', KEYS[2]) then redis.call('PEXPIRE', KEYS[2], leftMs) end
  return 0
end
redis.call('SET', KEYS[1], ARGV[1])
local others = redis.call('PUBSUB', 'NUMSUB', ARGV[4])[2]
if not run and ARGV[3] == '0' and others == 0 then return 0 end
redis.call('SET', KEYS[2], string.format('%.0f', nowMs), 'PX', ARGV[2])
return 1`

/**
 * The scripts that run inside Redis. The lease key holds the plain instance id and nothing else, exactly as `SET key id NX PX ttl`
 * leaves it, and it is renewed and released on the condition that it still holds that id: an instance that knows
 * only `SET NX PX` and the two conditional scripts excludes ours and is excluded by them.
 *
 * The fence has a key of its own, so that the value stays what foreign instances expect. It is a number in microseconds of the
 * server's wall time, or one more than the last: it grows even when its key is lost.
 */
export const SCRIPTS: Readonly<
  Record<'acquire' | 'renew' | 'release' | 'transfer' | 'nodes' | 'handshake', string>
> = {
  acquire: ACQUIRE,
  renew: RENEW,
  release: RELEASE,
  transfer: TRANSFER,
  nodes: NODES,
  handshake: HANDSHAKE,
}
