/** `runFleet`: checks its arguments, starts the runner, and passes it the lists of sessions. */
import { invalid, isLeaseError, LeaseError } from '../core/errors.ts'
import { reportTo } from '../runtime/diagnostics.ts'
import type { Fleet, FleetOptions, LeaseManager, SessionSource } from './contract.ts'
import { FleetManager } from './fleet-manager.ts'
import { FleetRunner } from './fleet-runner.ts'
import { readFleetOptions } from './fleet-options.ts'

/**
 * Polls the sessions that this instance should own, for as long as it owns them. Starts a manager that is not started.
 * Resolves after the first pass, which for a source is the pass over its first list.
 */
export async function runFleet(
  manager: LeaseManager,
  sessions: SessionSource,
  options: FleetOptions,
): Promise<Fleet> {
  if (!(manager instanceof FleetManager)) {
    throw invalid('manager', 'must come from openLeaseManager', manager)
  }
  const read = readFleetOptions(options)
  if (!isList(sessions) && !isAsyncSource(sessions)) {
    throw invalid('sessions', 'must be an array or an async iterable of arrays', sessions)
  }
  const first = isList(sessions) ? readSessions(manager, sessions) : null
  const isNew = manager.isNew
  const runner = new FleetRunner(manager, read)
  try {
    if (isNew) await manager.connect()
    if (first !== null) runner.setSessions(first)
    else await followSource(manager, runner, sessions as AsyncIterable<readonly string[]>)
    // Only now: a session that another instance hands over from here on is polled at once.
    if (isNew) await manager.publish()
    await runner.pass()
    if (runner.isStopping) throw new LeaseError('CLOSED', 'the manager was stopped')
    return runner
  } catch (error) {
    await runner.stop()
    throw error
  }
}

function readSessions(manager: FleetManager, list: unknown): readonly string[] {
  if (!Array.isArray(list)) throw invalid('sessions', 'must be an array', list)
  return list.map((sessionId) => manager.parseSessionId(sessionId))
}

/** Resolves with the first list of a source. After that, a list that is invalid is reported and skipped. */
async function followSource(
  manager: FleetManager,
  runner: FleetRunner,
  source: AsyncIterable<readonly string[]>,
): Promise<void> {
  const lists = source[Symbol.asyncIterator]()
  const stopped = new Promise<null>((resolve) => {
    runner.onStop(() => {
      resolve(null)
      end(lists)
    })
  })
  const first = await Promise.race([lists.next(), stopped])
  if (first === null) throw new LeaseError('CLOSED', 'the manager was stopped')
  if (first.done === true) return
  runner.setSessions(readSessions(manager, first.value))
  void follow(manager, runner, lists)
}

async function follow(
  manager: FleetManager,
  runner: FleetRunner,
  lists: AsyncIterator<readonly string[]>,
): Promise<void> {
  for (;;) {
    try {
      const { done, value } = await lists.next()
      if (done === true || runner.isStopping) return
      runner.setSessions(readSessions(manager, value))
    } catch (error) {
      runner.fail(error)
      if (!isInvalidInput(error)) return
    }
  }
}

/** Does not wait for the end of the source, which may be waiting for a list that never comes. */
function end(lists: AsyncIterator<readonly string[]>): void {
  const ended = async (): Promise<unknown> => lists.return?.()
  ended().catch(reportTo('fleet/session-source'))
}

/** From reading a list. Any other error was thrown by the source, and ends it. */
function isInvalidInput(error: unknown): boolean {
  return isLeaseError(error) && error.code === 'INVALID_INPUT'
}

function isList(source: SessionSource): source is readonly string[] {
  return Array.isArray(source)
}

function isAsyncSource(source: unknown): source is AsyncIterable<readonly string[]> {
  return typeof source === 'object' && source !== null && Symbol.asyncIterator in source
}
