/**
 * A consumer group on a Redis stream, as one of its consumers sees it: the commands alone; `RedisConsumer` decides when.
 *
 * One consumer of a group is active at a time: it has the turn. Redis itself would deal the messages out to all of them,
 * and a faster consumer would overtake the others: an action that comes after a later one is stale, and lost.
 */
import { commandsOf, runScript, type RedisCommand } from '../drivers/redis-driver.ts'
import { DeadLetterFault } from './delivery.ts'
import type { RedisBusClient, RedisBusOptions } from './redis-bus.ts'

export interface GroupOptions extends Required<
  Pick<RedisBusOptions, 'stream' | 'lengthMax' | 'runtime'>
> {
  readonly group: string
  /** How long a consumer stays active without a keep-alive. */
  readonly turnMs: number
}

export interface StreamEntry {
  readonly id: string
  readonly text: string
  /** The target that an operator has sent it to again; null for an ordinary message. */
  readonly resentTo: string | null
  /**
   * How often processing was started without an answer, the first delivery included; null at the first delivery.
   */
  readonly attempts: number | null
}

/** A page of pending messages, and the start of the next page; null: this was the last. */
export interface PendingPage {
  readonly entries: readonly StreamEntry[]
  readonly next: string | null
}

/** The field of an entry that was sent again. */
export const RESENT_TO = 'resent_to'
const READ_COUNT = 100
/** A consumer that has been idle for so long, and has nothing pending, is removed. */
const GONE_MS = 3_600_000

/** Takes or keeps the turn: 2 if it is new, 1 if this consumer had it already, 0 if another has it. */
const TAKE_TURN = `local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return holder and 1 or 2`
const END_TURN = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`
/** One script, because a message that a consumer takes between the check and the removal would be lost. */
const FORGET_CONSUMERS = `for _, fields in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  local found = {}
  for i = 1, #fields, 2 do found[fields[i]] = fields[i + 1] end
  local over = found.name == ARGV[2] or found.idle > tonumber(ARGV[3])
  if found.pending == 0 and over then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], found.name)
  end
end
return 1`

/**
 * Claims pending messages, one page at a time. A plain claim counts as a delivery; with `JUSTID` it does not, so that only
 * `countAttempts` counts. A message that the stream has trimmed is acknowledged.
 */
const CLAIM_PENDING = `local claimed = redis.call('XAUTOCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[3], 'COUNT', ARGV[4], 'JUSTID')
local entries = {}
for _, id in ipairs(claimed[2]) do
  local pending = redis.call('XPENDING', KEYS[1], ARGV[1], id, id, 1)[1]
  local found = redis.call('XRANGE', KEYS[1], id, id)[1]
  if pending and found then entries[#entries + 1] = {id, found[2], pending[4]}
  else redis.call('XACK', KEYS[1], ARGV[1], id) end
end
return {claimed[1], entries}`
const PENDING_START = '0-0'

export class RedisGroup {
  readonly #options: GroupOptions
  readonly #command: RedisCommand
  readonly #name: string
  readonly #deadLetterFault: DeadLetterFault
  #turnUntilMs = 0

  constructor(connection: RedisBusClient, options: GroupOptions) {
    this.#options = options
    this.#command = commandsOf(connection)
    this.#name = options.runtime.uuid()
    this.#deadLetterFault = new DeadLetterFault(options.group, options.runtime)
  }

  async create(): Promise<void> {
    const { stream, group } = this.#options
    try {
      await this.#command(['XGROUP', 'CREATE', stream, group, '0', 'MKSTREAM'])
    } catch (error) {
      if (!String(error).includes('BUSYGROUP')) throw error
    }
  }

  /** By this process's own clock, from before it asked. */
  get hasTurn(): boolean {
    return this.#options.runtime.monotonicMs() < this.#turnUntilMs
  }

  async takeTurn(): Promise<'taken' | 'kept' | 'refused'> {
    const { turnMs, runtime } = this.#options
    const askedMs = runtime.monotonicMs()
    const args = [this.#name, String(turnMs)]
    const answer = await this.#run(TAKE_TURN, this.#turnKey, args)
    const isMine = Number(answer) > 0
    this.#turnUntilMs = isMine ? askedMs + turnMs : 0
    if (!isMine) return 'refused'
    return Number(answer) === 2 ? 'taken' : 'kept'
  }

  /** Leaves the turn to others, and nothing behind. */
  async leave(): Promise<void> {
    this.#turnUntilMs = 0
    await this.#run(END_TURN, this.#turnKey, [this.#name])
    await this.forgetConsumers()
  }

  async forgetConsumers(): Promise<void> {
    const { stream, group } = this.#options
    await this.#run(FORGET_CONSUMERS, stream, [group, this.#name, String(GONE_MS)])
  }

  /** Messages that were delivered to any consumer of the group and not acknowledged, in the order of the stream. */
  async claimPending(from: string = PENDING_START): Promise<PendingPage> {
    const { stream, group } = this.#options
    const args = [group, this.#name, from, String(READ_COUNT)]
    const [next, found] = (await this.#run(CLAIM_PENDING, stream, args)) as readonly unknown[]
    return {
      entries: entriesOf(found),
      next: String(next) === PENDING_START ? null : String(next),
    }
  }

  /** Records how often processing of a pending entry was started, for the next active consumer. */
  async countAttempts(id: string, attempts: number): Promise<void> {
    const { stream, group } = this.#options
    const count = ['RETRYCOUNT', String(attempts), 'JUSTID']
    await this.#command(['XCLAIM', stream, group, this.#name, '0', id, ...count])
  }

  async readFresh(blockMs: number): Promise<readonly StreamEntry[]> {
    const { stream, group } = this.#options
    const reply = await this.#command([
      ...['XREADGROUP', 'GROUP', group, this.#name, 'COUNT', String(READ_COUNT)],
      ...['BLOCK', String(Math.max(1, Math.ceil(blockMs))), 'STREAMS', stream, '>'],
    ])
    return streamEntries(reply)
  }

  async acknowledge(id: string): Promise<void> {
    const { stream, group } = this.#options
    await this.#command(['XACK', stream, group, id])
  }

  /** First kept as a dead letter, then acknowledged: twice is better than never. */
  async bury({ id, text }: StreamEntry, reason: string): Promise<void> {
    const { stream, group, lengthMax } = this.#options
    const fields = ['target', group, 'reason', reason, 'message', text]
    const limit = ['MAXLEN', '~', String(lengthMax)]
    await this.#command(['XADD', `${stream}:dead`, ...limit, '*', ...fields])
    this.#deadLetterFault.report(reason)
    await this.acknowledge(id)
  }

  get #turnKey(): string {
    const { stream, group } = this.#options
    return `${stream}:turn:${group}`
  }

  #run(script: string, key: string, args: readonly string[]): Promise<unknown> {
    return runScript(this.#command, { script, keys: [key], args })
  }
}

/**
 * The entries of the only stream that was asked for: a list of pairs in the second version of the protocol, in the
 * third a map, of which some clients make an object and others a flat list.
 */
function streamEntries(reply: unknown): readonly StreamEntry[] {
  if (reply === null || typeof reply !== 'object') return []
  if (!Array.isArray(reply)) return entriesOf(Object.values(reply)[0])
  const [first, second] = reply as readonly unknown[]
  return entriesOf(Array.isArray(first) ? first[1] : second)
}

/** Id, fields and, for what was pending, attempts. An entry that is gone meanwhile has no fields, and is left out. */
function entriesOf(reply: unknown): readonly StreamEntry[] {
  if (!Array.isArray(reply)) return []
  return (reply as readonly (RawEntry | null)[]).flatMap((entry) => {
    if (entry === null || entry[1] === null) return []
    const [id, fields, attempts] = entry
    return [
      {
        id,
        text: fieldOf(fields, 'message') ?? '',
        resentTo: fieldOf(fields, RESENT_TO),
        attempts: attempts === undefined ? null : Number(attempts),
      },
    ]
  })
}

type RawEntry = readonly [id: string, fields: readonly string[] | null, attempts?: number]

function fieldOf(fields: readonly string[], name: string): string | null {
  const at = fields.findIndex((field, index) => index % 2 === 0 && field === name)
  return at < 0 ? null : (fields[at + 1] ?? null)
}
