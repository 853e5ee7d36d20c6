/**
 * One order is processed by one orchestrator at a time. The first is killed in the middle; the second takes over, goes
 * on with the next epoch, and finishes. The processor carries out every step once, in order, and refuses what the dead
 * one would still have sent.
 *
 * Run it with `node examples/order-workflow.mjs` (after `npm run build`). It takes about three seconds.
 */
import { fork } from 'node:child_process'
import { EventEmitter, once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { openTenure } from 'tenure'
import {
  ActionGuard,
  claimWorkflow,
  currentLease,
  formatAction,
  parseAction,
} from 'tenure/workflow'

const ORDER = 'order-991'
const STEPS = ['VALIDATE_DATA', 'RESERVE_STOCK', 'CHARGE_CARD', 'SHIP', 'SEND_RECEIPT']

/** Messages to the parent process are the bus; any other would do, `RedisBus` for one. */
const parentBus = {
  publish: async (actions) => actions.forEach((action) => process.send(formatAction(action))),
  announce: async () => undefined,
}

/** In a process of its own: claims the order and emits its steps. The first hangs after two of them. */
async function orchestrate(store, holder, from) {
  const tenure = await openTenure(store, { holder })
  const options = { bus: parentBus, ttlMs: 3_000, waitMs: 30_000 }
  const orchestrator = await claimWorkflow(tenure, ORDER, options)
  for (const step of STEPS.slice(Number(from))) {
    await orchestrator.emit(step, { order: 991, by: holder }, { target: 'processor' })
    if (holder === 'orchestrator-1' && step === 'RESERVE_STOCK') await new Promise(() => undefined)
  }
  await orchestrator.complete()
  await tenure.close()
  process.disconnect()
}

async function main() {
  const directory = mkdtempSync(join(tmpdir(), 'tenure-example-'))
  const store = `sqlite:${join(directory, 'leases.db')}`
  const tenure = await openTenure(store, { holder: 'processor' })
  const guard = new ActionGuard({ strict: true, lookUp: currentLease(tenure) })
  const carriedOut = []
  const progress = new EventEmitter()

  const carryOut = async (text) => {
    const action = parseAction(text)
    await guard.process(action, ({ by }) => {
      carriedOut.push(action)
      console.log(`epoch ${action.epoch}: ${action.actionType}, by ${by}`)
    })
    progress.emit('step')
  }
  const start = (holder) => {
    const args = [store, holder, String(carriedOut.length)]
    const child = fork(fileURLToPath(import.meta.url), args)
    let turn = Promise.resolve()
    child.on('message', (text) => {
      turn = turn.then(() => carryOut(text))
    })
    return child
  }

  const first = start('orchestrator-1')
  while (carriedOut.length < 2) await once(progress, 'step')
  first.kill('SIGKILL')
  console.log('orchestrator-1 is killed')

  const ended = once(start('orchestrator-2'), 'exit')
  while (carriedOut.length < STEPS.length) await once(progress, 'step')

  const [late] = carriedOut
  const refusal = await guard.process(late, () => 'never').catch((error) => error.code)
  console.log(`the first step again, under the lease of the dead one: ${refusal}`)
  await tenure.close()
  // It still writes to the store that it is done.
  await ended
  rmSync(directory, { recursive: true })
}

const [, , ...args] = process.argv
await (args.length === 0 ? main() : orchestrate(...args))
