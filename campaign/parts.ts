/** Every part of the campaign, in the order in which they run. */
import { museum } from './museum/museum.ts'
import type { Part } from './part.ts'

export const PARTS: readonly Part[] = [museum]
