/**
 * Whose turn it is to change files that only one process may change at a time: two that seal a ledger at once would number
 * their lines alike, and of two that rotate keys at once one would lose its key. A lease does not do: a rotation keeps the
 * sealers of several ledgers out whose stores it does not know, a registrar's own ledger has no store, and a lease would
 * add events to the very ledger that is being sealed.
 *
 * A process that wants a turn leaves a file with its own name in the directory, and then looks for those of others. If two
 * come at once, at least one sees the other, and steps back. The file of a process that died on this host counts for
 * nothing and is swept away; no other process ever has its name, so nothing of a living one can be swept with it.
 */
import path from 'node:path'
import { isLeaseError, LeaseError } from '../core/errors.ts'
import { unusable, using } from './key-file.ts'
import { report } from '../runtime/diagnostics.ts'
import { fs } from '../runtime/file-system.ts'
import { pause } from '../runtime/pause.ts'
import {
  hostName,
  isProcessAlive,
  ownProcessId,
  ownThreadId,
  systemRuntime,
} from '../runtime/system-runtime.ts'

const WAIT_MS_MAX = 5_000
const PAUSE_MS = 10
const PAUSES = 40

/** By the path that their symbolic links lead to. */
const here = new Set<string>()

export interface Turn {
  readonly directory: string
  /** What the files begin with that say whose turn it is. */
  readonly name: string
  /** What one at a time may do. */
  readonly act: string
}

/** Throws `STORE_CONFLICT` when another process is at it; gives back a function that ends the turn. */
export function takeTurn(turn: Turn): () => void {
  const { directory, name: prefix } = turn
  const host = encodeURIComponent(hostName())
  const own = `${prefix}-${host}-${ownProcessId()}${threadSuffix()}`
  const file = path.join(directory, own)
  const real = using(directory, () => fs.realpathSync(directory))
  const place = path.join(real, own)
  if (here.has(place)) throw taken(turn, file)
  using(file, () => fs.writeFileSync(file, ''))
  const end = (): void => {
    here.delete(place)
    try {
      fs.rmSync(file, { force: true })
    } catch (error) {
      // The turn is over all the same; others see its file until this process ends.
      report('ledger/turn', error)
    }
  }
  here.add(place)
  try {
    refuseOthers(turn, { own, ofHost: `${prefix}-${host}-` })
    return end
  } catch (error) {
    end()
    throw isLeaseError(error) ? error : unusable(directory, error)
  }
}

/** Waits a few seconds for the turn, for something that takes no longer than a moment. */
export async function waitForTurn(turn: Turn): Promise<() => void> {
  const untilMs = systemRuntime.monotonicMs() + WAIT_MS_MAX
  // Two that step back from each other must not come back together.
  const pauseMs = PAUSE_MS + (ownProcessId() % PAUSES)
  for (;;) {
    try {
      return takeTurn(turn)
    } catch (error) {
      const isTaken = isLeaseError(error, 'STORE_CONFLICT')
      if (!isTaken || systemRuntime.monotonicMs() >= untilMs) throw error
    }
    await pause(systemRuntime, pauseMs, { keepAlive: true })
  }
}

interface Names {
  readonly own: string
  /** What the names of this host's files begin with. */
  readonly ofHost: string
}

function refuseOthers(turn: Turn, { own, ofHost }: Names): void {
  const { directory, name: prefix } = turn
  const others = fs
    .readdirSync(directory)
    .filter((name) => name.startsWith(`${prefix}-`) && name !== own)
  for (const name of others) {
    const maker = path.join(directory, name)
    if (!isDead(name, ofHost)) throw taken(turn, maker)
    fs.rmSync(maker, { force: true })
  }
}

/** Threads of a process know nothing of each other's turns; one that has ended in its turn has it until its process ends. */
function threadSuffix(): string {
  const thread = ownThreadId()
  return thread === 0 ? '' : `.${thread}`
}

/** A process of another host cannot be asked whether it lives. */
function isDead(name: string, prefix: string): boolean {
  const [, pid] = /^(\d{1,15})(?:\.\d+)?$/.exec(name.slice(prefix.length)) ?? []
  return name.startsWith(prefix) && pid !== undefined && !isProcessAlive(Number(pid))
}

function taken({ act }: Turn, file: string): LeaseError {
  const message = `only one may ${act} at a time, got ${file} (remove it if its maker died elsewhere)`
  return new LeaseError('STORE_CONFLICT', message)
}
