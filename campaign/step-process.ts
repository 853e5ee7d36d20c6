/** A process that runs one step, says how far it is, and prints what came of it. */
import { PARTS } from './parts.ts'
import type { StepOrder } from './part.ts'

export interface ProcessOrder extends Omit<StepOrder, 'say'> {
  readonly part: string
  readonly step: string
}

const order = JSON.parse(process.argv[2] ?? '') as ProcessOrder
const part = PARTS.find(({ name }) => name === order.part)
const step = part?.steps.find(({ name }) => name === order.step)
if (step === undefined) throw new Error(`there is no step ${order.part}, ${order.step}`)

const outcome = await step.run({ ...order, say: (text) => process.stdout.write(`${text}\n`) })
process.stdout.write(`${JSON.stringify(outcome)}\n`)
