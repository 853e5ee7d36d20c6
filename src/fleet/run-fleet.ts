/** `runFleet`: checks what it is given, starts the runner, and feeds it the sessions. */
import { invalid } from '../core/errors.ts'
import type { Fleet, FleetOptions, LeaseManager, SessionSource } from './contract.ts'
import { FleetManager } from './fleet-manager.ts'
import { FleetRunner } from './fleet-runner.ts'
import { isAsyncSource, isList, readFleetOptions } from './runner-options.ts'

/**
 * Polls the sessions that this instance should own, for as long as it owns them. Starts the manager if nobody has.
 * Resolves after the first pass over a list, or when the first list of a source has been passed over.
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
  if (isNew) await manager.connect()
  const runner = new FleetRunner(manager, read)
  try {
    if (first !== null) runner.setSessions(first)
    else await firstOf(manager, runner, sessions as AsyncIterable<readonly string[]>)
    // Only now, because what is handed to it from here on is polled at once.
    if (isNew) await manager.show()
    await runner.pass()
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

/** Reads the source until it ends or the manager does; resolves with its first list. */
async function firstOf(
  manager: FleetManager,
  runner: FleetRunner,
  source: AsyncIterable<readonly string[]>,
): Promise<void> {
  const lists = source[Symbol.asyncIterator]()
  const next = async (): Promise<boolean> => {
    const { done, value } = await lists.next()
    if (done === true || !manager.isStarted) return false
    runner.setSessions(readSessions(manager, value))
    return true
  }
  const follow = async (): Promise<void> => {
    while (await next()) continue
    await lists.return?.()
  }
  await next()
  follow().catch((error: unknown) => runner.fail(error))
}
