/**
 * Marks in Redis, with the effect in one script. An effect says which commands it wants, and they are carried out
 * together with the raise of the mark, if the mark is still the one that the action was judged by; otherwise the action
 * is judged again.
 */
import { LeaseError } from '../core/errors.ts'
import { refuseUnknown } from '../core/input.ts'
import { commandsOf, runScript, type RedisCommand, type RedisLike } from '../guard/redis-client.ts'
import { parseName } from './action.ts'
import {
  ACTIONS_REMEMBERED,
  SeenMarks,
  WorkflowTurns,
  type ActionMarks,
  type ActionRef,
  type Verdict,
} from './action-marks.ts'
import type { Known, WorkflowMark } from './judgement.ts'

/**
 * The commands of an effect. None runs before the effect has ended; all run in one script, and then the mark is raised.
 * Redis does not undo: when one of them fails, those before it stay, and the mark is not raised.
 */
export interface RedisEffects {
  command(name: string, ...args: readonly (string | number)[]): void
}

export interface RedisMarksOptions {
  /**
   * Before the keys of the marks. On a cluster it must have the hash tag of the keys that effects write. Default
   * `tenure:marks:`.
   */
  readonly prefix?: string
}

const TRIES_MAX = 20

const READ = `return {redis.call('GET', KEYS[1]) or '', redis.call('ZSCORE', KEYS[2], ARGV[1]) or ''}`

/** KEYS: mark, actions. ARGV: expected, new mark, action, epoch, then each command as its length and its words. */
const COMMIT = `if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
local at = 5
while at <= #ARGV do
  local count = tonumber(ARGV[at])
  redis.call(unpack(ARGV, at + 1, at + count))
  at = at + 1 + count
end
redis.call('SET', KEYS[1], ARGV[2])
if ARGV[4] == '' then return 1 end
redis.call('ZADD', KEYS[2], ARGV[4], ARGV[3])
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -${ACTIONS_REMEMBERED + 1})
return 1`

export class RedisMarks implements ActionMarks<RedisEffects> {
  readonly #command: RedisCommand
  readonly #stem: string
  readonly #seen = new SeenMarks()
  readonly #turns = new WorkflowTurns()

  /** `processor` names whose marks these are: several kinds of processors may share a server. */
  constructor(client: RedisLike, processor: string, options: RedisMarksOptions = {}) {
    refuseUnknown(options, ['prefix'])
    this.#command = commandsOf(client)
    const { prefix = 'tenure:marks:' } = options
    this.#stem = `${prefix}${parseName(processor, 'processor')}:`
  }

  peek(ref: ActionRef): Known {
    return this.#seen.peek(ref)
  }

  /** Within this process an effect runs once; of several processes each may run it, and one has its commands kept. */
  transact<Result>(
    ref: ActionRef,
    decide: (known: Known) => Verdict<RedisEffects, Result>,
  ): Promise<Result> {
    return this.#turns.take(ref.workflowId, () => this.#transact(ref, decide))
  }

  async #transact<Result>(
    ref: ActionRef,
    decide: (known: Known) => Verdict<RedisEffects, Result>,
  ): Promise<Result> {
    for (let tries = 0; tries < TRIES_MAX; tries += 1) {
      const { text, known } = await this.#read(ref)
      const { mark, epoch, effect } = decide(known)
      const commands = new Commands()
      const result = await effect(commands)
      if (mark === null) return result
      const raised = writeMark(mark)
      const args = [text, raised, ref.actionId, String(epoch ?? ''), ...commands.words]
      const keys = this.#keys(ref)
      const done = await runScript(this.#command, { script: COMMIT, keys, args })
      if (Number(done) === 1) {
        this.#seen.note(ref, mark, epoch !== null)
        return result
      }
    }
    const message = `the mark of workflow ${ref.workflowId} changed ${TRIES_MAX} times under one action`
    throw new LeaseError('STORE_CONFLICT', message)
  }

  async #read(ref: ActionRef): Promise<{ readonly text: string; readonly known: Known }> {
    const keys = this.#keys(ref)
    const reply = await runScript(this.#command, { script: READ, keys, args: [ref.actionId] })
    const [text = '', score = ''] = (reply as readonly unknown[]).map(String)
    const mark = readMark(text)
    this.#seen.note(ref, mark, score !== '')
    return { text, known: { mark, seen: score !== '' } }
  }

  #keys({ workflowId }: ActionRef): readonly string[] {
    return [`${this.#stem}mark:${workflowId}`, `${this.#stem}actions:${workflowId}`]
  }
}

class Commands implements RedisEffects {
  readonly words: string[] = []

  command(name: string, ...args: readonly (string | number)[]): void {
    this.words.push(String(args.length + 1), name, ...args.map(String))
  }
}

function writeMark({ leaseId, fence, revoked, epoch }: WorkflowMark): string {
  return `${leaseId} ${fence} ${revoked ? 1 : 0} ${epoch}`
}

function readMark(text: string): WorkflowMark | null {
  const [leaseId, fence, revoked, epoch] = text.split(' ')
  if (leaseId === undefined || leaseId === '' || epoch === undefined) return null
  return { leaseId, fence: Number(fence), revoked: revoked === '1', epoch: Number(epoch) }
}
