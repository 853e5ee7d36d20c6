/**
 * What every script begins with. The first line lets the server refuse a script as a whole when it is out of memory or
 * may not write; without it the script would begin, and fail at its first write. A script that only reads says so, and
 * then runs on a server that is out of memory, and on a read-only replica.
 *
 * Numbers in what is kept have fixed widths, so that they are found by their place and need no taking apart:
 *
 *     state   last position[16] highest clock seen[16] period of long marks[10] day of idle realms[10] of marks[10]
 *             revision
 *     head    version[11] claim[11] fence[16] liveUs[16] renewals[10], JSON, created[16]
 *     realm   wallMs[13] fence[16] epoch[16] tickets[5], then of a flat realm its claims: id[36] claim[11] each
 *     event   lease[36] mark[1] type[1] hasBody[1] atMs[13], fence[16] or -, request[36] or -, JSON from renewals on
 *     mark    lease[36] source[1] type[1], keepUntilMs
 */
/** The field of the hash `e` that has the state of the bucket: neither an id nor, without a colon, a realm. */
export const STATE_FIELD = 'state'
export const STATE_REVISION_AT = 62
export const HEAD_JSON_AT = 64
export const CREATED_WIDTH = 16

const COMMON = `
local P = KEYS[1] .. ':'
local call, sub = redis.call, string.sub
local STATE = '${'0'.repeat(STATE_REVISION_AT + 1)}'
`

/** For scripts that are not run for every command. */
export const PLAIN: string = `
local A = ARGV
local function int(number) return string.format('%d', number) end
local function clock(given)
  if given ~= '' then return tonumber(given) end
  local time = call('TIME')
  return time[1] * 1000000 + time[2]
end
`

export const WRITING: string = `#!lua
${COMMON}`

export const READING: string = `#!lua flags=no-writes
${COMMON}`

/** How long an idle flat realm remembers its last fence and wall time, at least. */
export const DAY_MS = 86_400_000

/**
 * Takes some of the realms that were left idle on the day before yesterday or earlier, and forgets those that are still
 * as they were left. Needs `now`, `day`, `idleDay` and `most`, and moves `idleDay` on when there are no more.
 */
export const TIDY: string = `
  local some = call('SPOP', P .. 'y:' .. idleDay, most)
  for n = 1, #some do
    local realm = call('HGET', P .. 'e', some[n])
    if realm and #realm == 50 and tonumber(sub(realm, 30, 45)) == 0
      and tonumber(sub(realm, 1, 13)) * 1000 < now - ${DAY_MS * 1000}
    then
      call('HDEL', P .. 'e', some[n])
    end
  end
  if #some < most then idleDay = idleDay + 1 end
`
