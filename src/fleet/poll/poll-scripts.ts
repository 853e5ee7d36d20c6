/**
 * What runs inside Redis. The lease key holds the plain instance id and nothing else, exactly as `SET key id NX PX ttl`
 * leaves it, and it is renewed and released on the condition that it still holds that id: an instance that knows
 * only `SET NX PX` and the two conditional scripts excludes ours and is excluded by them.
 *
 * The fence lives beside, so that the value stays what foreign instances expect. It is a number in microseconds of the
 * server's wall time, or one more than the last: it grows even when its key is lost.
 */

/**
 * KEYS: lease, fence. ARGV: instance id, TTL in ms, TTL of the fence in ms. Returns `{1, fence}`;
 * `{2, fence}` if it was ours by name already, handed to us or left behind by a lost answer, and is granted anew; or
 * `{0, owner, PTTL}`.
 */
const ACQUIRE = `
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then return {0, owner, redis.call('PTTL', KEYS[1])} end
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
 * KEYS: lease, fence. ARGV: giver, its fence, receiver, TTL in ms, channel of the receiver, message, channel of all, 1 to
 * take for granted that the receiver hears. On the same conditions as a release. A receiver that nobody hears from any more gets nothing: the session is free, and
 * all are told to look. One that dies right after has a short time to renew, so that the session is free again soon.
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

export type ScriptName = 'acquire' | 'renew' | 'release' | 'transfer' | 'nodes'

export const SCRIPTS: Readonly<Record<ScriptName, string>> = {
  acquire: ACQUIRE,
  renew: RENEW,
  release: RELEASE,
  transfer: TRANSFER,
  nodes: NODES,
}
