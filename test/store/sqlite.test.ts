import { describe, it } from 'vitest'
import { storeConformance } from '../../src/testing/index.ts'
import { sqliteSubject } from './sqlite-subject.ts'

storeConformance({ describe, it, skip: it.skip }, sqliteSubject)
