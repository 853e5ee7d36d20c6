/** A process that runs one step, says how far it is, and prints what came of it; or, on standard error, why it could not. */
import { PARTS } from './parts.ts'
import type { Step, StepOrder } from './part.ts'

export interface ProcessOrder extends Omit<StepOrder, 'say'> {
  readonly part: string
  readonly step: string
}

function stepOf(order: ProcessOrder): Step {
  const part = PARTS.find(({ name }) => name === order.part)
  const step = part?.steps.find(({ name }) => name === order.step)
  if (step === undefined) throw new Error(`there is no step ${order.part}, ${order.step}`)
  return step
}

try {
  const order = JSON.parse(process.argv[2] ?? '') as ProcessOrder
  const say = (text: string): void => void process.stdout.write(`${text}\n`)
  say(JSON.stringify(await stepOf(order).run({ ...order, say })))
} catch (error) {
  process.stderr.write(error instanceof Error ? error.message : String(error))
  process.exit(1)
}
